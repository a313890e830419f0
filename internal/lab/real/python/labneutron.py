"""Neutron without agents: ports are bound and floating IPs work at once."""
from neutron.services.l3_router import l3_router_plugin
from neutron.services.trunk.drivers import base as trunk
from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class LabTrunkDriver(trunk.DriverBase):
    """Has trunks kept, and nothing done about them."""
    is_loaded = True


class LabMechanismDriver(api.MechanismDriver):
    """Binds every port and marks it ACTIVE."""

    def initialize(self):
        self.trunks = LabTrunkDriver('lab', (portbindings.VIF_TYPE_OVS,), ('vlan',), can_trunk_bound_port=True)

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        if context.host.startswith('nobind') or not context.segments_to_bind:
            return
        context.set_binding(context.segments_to_bind[0][api.ID], portbindings.VIF_TYPE_OVS,
                            {portbindings.CAP_PORT_FILTER: True},
                            status=constants.PORT_STATUS_ACTIVE)


class LabL3RouterPlugin(l3_router_plugin.L3RouterPlugin):
    """Sets a floating IP's status as its association says."""

    def _settle(self, context, floating):
        status = (constants.FLOATINGIP_STATUS_ACTIVE if floating.get('port_id')
                  else constants.FLOATINGIP_STATUS_DOWN)
        if floating.get('status') != status:
            self.update_floatingip_status(context.elevated(), floating['id'], status)
            floating['status'] = status
        return floating

    def create_floatingip(self, context, floatingip, *args, **kwargs):
        return self._settle(context, super().create_floatingip(context, floatingip, *args, **kwargs))

    def update_floatingip(self, context, id, floatingip):
        return self._settle(context, super().update_floatingip(context, id, floatingip))
