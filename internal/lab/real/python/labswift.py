"""Swift in one process: the proxy and one account, container and object server
with one device. Everything is kept once."""
import os

import eventlet


def ring(path, port):
    """Writes a ring of one partition on one device."""
    from swift.common.ring import RingBuilder
    builder = RingBuilder(0, 1, 0)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'weight': 1.0, 'ip': '127.0.0.1', 'port': port,
                     'replication_ip': '127.0.0.1', 'replication_port': port, 'device': 'disk', 'meta': ''})
    builder.rebalance()
    builder.get_ring().save(path)


def serve(folder, data, port, ready):
    """Serves from the configuration in a folder until the process is ended.

    The proxy has the port, and the three that follow are the other servers'.
    """
    from swift.common import utils
    utils.eventlet_monkey_patch()
    utils.SWIFT_CONF_FILE = os.path.join(folder, 'swift.conf')
    utils.validate_hash_conf()
    from swift.common import storage_policy
    storage_policy.reload_storage_policies()
    from swift.account.server import AccountController
    from swift.common import wsgi
    from swift.container.server import ContainerController
    from swift.obj.server import ObjectController
    os.makedirs(os.path.join(data, 'disk'), exist_ok=True)
    conf = {'swift_dir': folder, 'devices': data, 'recon_cache_path': data, 'mount_check': 'false',
            'disable_fallocate': 'true', 'allow_versions': 'true', 'log_level': 'WARNING'}
    servers = []
    for kind, controller in (('account', AccountController), ('container', ContainerController), ('object', ObjectController)):
        at = port + 1 + len(servers)
        ring(os.path.join(folder, kind + '.ring.gz'), at)
        servers.append((at, lambda controller=controller: controller(conf)))
    servers.append((port, lambda: wsgi.loadapp(os.path.join(folder, 'proxy.conf'))))
    running = []
    for at, make in servers:  # the proxy last: it reads the rings
        socket = eventlet.listen(('127.0.0.1', at), reuse_port=False)
        running.append(eventlet.spawn(eventlet.wsgi.server, socket, make(), log=utils.NullLogger(), protocol=wsgi.SwiftHttpProtocol))
    ready()
    for server in running:
        server.wait()
