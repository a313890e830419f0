"""Nova's fake hypervisor, with faults chosen by a server's metadata.

lab_delay=N     spawning takes N seconds
lab_fail=spawn  spawning fails
lab_console=N   the console stays silent for the first N seconds
lab_console=none  the console never shows host keys
"""
import base64
import hashlib
import struct
import time

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from nova import exception
from nova.virt import fake


def host_key(uuid):
    """The public SSH host key of a server, made from its id alone."""
    seed = hashlib.sha256(b'lab host key ' + uuid.encode()).digest()
    public = ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    kind = b'ssh-ed25519'
    blob = b''.join(struct.pack('>I', len(part)) + part for part in (kind, public))
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')
    return 'ssh-ed25519 ' + base64.b64encode(blob).decode(), 'SHA256:' + digest


def console(instance, age):
    """What the console of a server shows that booted age seconds ago."""
    asked = (instance.metadata or {}).get('lab_console', '')
    if asked.isdigit() and age < int(asked):
        return ''
    data = base64.b64decode(instance.user_data or b'')
    lines = ['[    0.000000] Linux version lab (%s)' % instance.uuid,
             'cloud-init: user-data %d bytes' % len(data)]
    if asked != 'none':
        key, digest = host_key(instance.uuid)
        name = 'root@' + instance.hostname
        lines += ['ci-info: no authorized SSH keys fingerprints found for user debian.',
                  '<14>cloud-init: #############################################################',
                  '<14>cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----',
                  '<14>cloud-init: 256 %s %s (ED25519)' % (digest, name),
                  '<14>cloud-init: -----END SSH HOST KEY FINGERPRINTS-----',
                  '<14>cloud-init: #############################################################',
                  '-----BEGIN SSH HOST KEY KEYS-----',
                  key + ' ' + name,
                  '-----END SSH HOST KEY KEYS-----']
    return '\n'.join(lines + ['%s login: ' % instance.hostname])


class LabDriver(fake.FakeDriver):
    def spawn(self, context, instance, *args, **kwargs):
        asked = instance.metadata or {}
        if asked.get('lab_delay'):
            time.sleep(float(asked['lab_delay']))
        if asked.get('lab_fail') == 'spawn':
            raise exception.InstanceDeployFailure(reason='lab_fail=spawn was asked for')
        return super().spawn(context, instance, *args, **kwargs)

    def get_info(self, instance, use_cache=True):
        # The stock driver forgets its guests when nova-compute starts anew.
        if (instance.uuid not in self.instances and instance.power_state
                and instance.task_state != 'deleting' and not instance.deleted):
            self.instances[instance.uuid] = fake.FakeInstance(
                instance.name, instance.power_state, instance.uuid)
        return super().get_info(instance, use_cache)

    def get_console_output(self, context, instance):
        booted = instance.launched_at
        age = time.time() - booted.timestamp() if booted else 0
        return console(instance, age)
