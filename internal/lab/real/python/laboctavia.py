"""Octavia without amphorae: the VIP's port is Neutron's, all else does nothing."""
import sys

from octavia.network import base
from octavia.network.drivers.neutron import allowed_address_pairs
from octavia.network.drivers.noop_driver import driver as noop


class LabNetworkDriver(noop.NoopNetworkDriver):
    _neutron = None

    @property
    def neutron(self):
        if LabNetworkDriver._neutron is None:
            LabNetworkDriver._neutron = allowed_address_pairs.AllowedAddressPairsDriver()
        return LabNetworkDriver._neutron

    def _look(self, name, *args, **kwargs):
        try:
            return getattr(self.neutron, name)(*args, **kwargs)
        except base.NetworkException:
            if 'uwsgi' in sys.modules:  # the API has to say that it isn't there
                raise
            return getattr(noop.NoopNetworkDriver, name)(self, *args, **kwargs)

    def allocate_vip(self, loadbalancer):
        return self.neutron.allocate_vip(loadbalancer)

    def deallocate_vip(self, vip):
        vip.load_balancer.amphorae = []
        return self.neutron.deallocate_vip(vip)

    def get_network(self, *args, **kwargs):
        return self._look('get_network', *args, **kwargs)

    def get_subnet(self, *args, **kwargs):
        return self._look('get_subnet', *args, **kwargs)

    def get_port(self, *args, **kwargs):
        return self._look('get_port', *args, **kwargs)

    def get_qos_policy(self, *args, **kwargs):
        return self._look('get_qos_policy', *args, **kwargs)

    def get_network_ip_availability(self, *args, **kwargs):
        return self._look('get_network_ip_availability', *args, **kwargs)
