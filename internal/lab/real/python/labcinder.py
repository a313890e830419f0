"""Cinder's backend: a volume is a file of 1 MiB, and attaches to nothing real.

A volume with the metadata lab_fail=create can't be created.
"""
import os

from cinder import exception
from cinder.tests import fake_driver
from oslo_config import cfg


class LabVolumeDriver(fake_driver.FakeLoggingVolumeDriver):
    def local_path(self, volume, vg=None):
        folder = os.path.join(cfg.CONF.state_path, 'volumes')
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, volume['name'])

    def create_volume(self, volume):
        if (volume.metadata or {}).get('lab_fail') == 'create':
            raise exception.VolumeBackendAPIException(data='lab_fail=create was asked for')
        with open(self.local_path(volume), 'wb') as f:
            f.truncate(1 << 20)
        return super().create_volume(volume)

    def delete_volume(self, volume):
        try:
            os.unlink(self.local_path(volume))
        except OSError:
            pass

    def extend_volume(self, volume, new_size):
        pass

    def create_cloned_volume(self, volume, src_vol):
        return self.create_volume(volume)

    def create_volume_from_snapshot(self, volume, snapshot):
        return self.create_volume(volume)
