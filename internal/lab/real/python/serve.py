"""Runs the lab's programs.

serve.py NAME ARGUMENT...  one daemon or management command
serve.py fork JSON         several daemons that have much code in common: it is
                           loaded once, and each goes on in a process of its own

A daemon makes the file that the variable LAB_READY names once it works.
"""
import gc
import importlib
import json
import os
import signal
import sys
import threading


def command(module, function='main'):
    return sys.exit(getattr(importlib.import_module(module), function)())


def ready():
    open(os.environ['LAB_READY'], 'w').close()


def after(owner, name, then):
    """Has then() called after the method owner.name, each time."""
    method = getattr(owner, name)

    def both(*args, **kwargs):
        result = method(*args, **kwargs)
        then(*args)
        return result
    setattr(owner, name, both)


def nova_daemon(module):
    daemon = importlib.import_module(module)  # it monkey-patches, so it comes first
    from nova.servicegroup import api
    from nova.servicegroup.drivers import db
    api.INITIAL_REPORTING_DELAY = 0  # the first report is what tells that it works
    after(db.DbDriver, '_report_state', lambda *_: ready())
    return sys.exit(daemon.main())


def nova_compute():
    importlib.import_module('nova.cmd.compute')  # it monkey-patches, so it comes first
    import labnova
    sys.modules['nova.virt.lab'] = labnova  # compute_driver = lab.LabDriver
    return nova_daemon('nova.cmd.compute')


def cinder_daemon(module):
    daemon = importlib.import_module(module)  # it monkey-patches, so it comes first
    from cinder import service

    def started(serving, *_):
        serving.report_state()
        ready()
    after(service.Service, 'start', started)
    return sys.exit(daemon.main())


def neutron_server():
    """The API alone: without agents nobody needs the RPC workers."""
    importlib.import_module('neutron.cmd.eventlet.server')  # monkey-patches
    from neutron import server, service
    server.boot_server(lambda: service.serve_wsgi(service.NeutronApiService).wait())


def octavia_worker():
    """The consumer of the second version alone, in one process."""
    import quick
    with quick.types():
        from octavia.common import service
        from octavia.controller.queue.v2 import consumer
    from oslo_config import cfg
    service.prepare_service(sys.argv)
    serving = consumer.ConsumerService(0, cfg.CONF)
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    serving.run()
    ready()
    while not done.wait(3600):
        pass
    serving.message_listener.stop()


def swift():
    import labswift
    labswift.serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), ready)


PROGRAMS = {
    'keystone-manage': lambda: command('keystone.cmd.manage'),
    'glance-manage': lambda: command('glance.cmd.manage'),
    'placement-manage': lambda: command('placement.cmd.manage'),
    'nova-manage': lambda: command('nova.cmd.manage'),
    'nova-conductor': lambda: nova_daemon('nova.cmd.conductor'),
    'nova-scheduler': lambda: nova_daemon('nova.cmd.scheduler'),
    'nova-compute': nova_compute,
    'neutron-db-manage': lambda: command('neutron.db.migration.cli'),
    'neutron-server': neutron_server,
    'cinder-manage': lambda: command('cinder.cmd.manage'),
    'cinder-scheduler': lambda: cinder_daemon('cinder.cmd.scheduler'),
    'cinder-volume': lambda: cinder_daemon('cinder.cmd.volume'),
    'octavia-db-manage': lambda: command('octavia.db.migration.cli'),
    'octavia-worker': octavia_worker,
    'swift': swift,
}

# What the daemons of a service would load for themselves.
COMMON = {
    'nova': ['nova.cmd.conductor', 'nova.cmd.scheduler', 'nova.cmd.compute', 'nova.objects', 'nova.conductor.manager', 'nova.scheduler.manager',
             'nova.compute.manager', 'nova.virt.fake', 'oslo_messaging._drivers.impl_rabbit',
             'pymysql', 'openstack.connection'],
    'cinder': ['cinder.cmd.scheduler', 'cinder.cmd.volume', 'cinder.objects', 'cinder.scheduler.manager', 'cinder.volume.manager', 'cinder.tests.fake_driver',
               'oslo_messaging._drivers.impl_rabbit', 'pymysql'],
}


def started(pid):
    """When a process started, in the kernel's ticks."""
    with open('/proc/%d/stat' % pid) as f:
        return f.read().rpartition(')')[2].split()[19]


def fork(plan):
    for module in COMMON[plan['service']]:
        importlib.import_module(module)
        if module.endswith('.objects'):
            sys.modules[module].register_all()
    gc.collect()
    gc.freeze()  # so that collecting leaves the pages shared
    for daemon in plan['daemons']:
        if os.fork():
            continue
        os.setsid()
        with open(daemon['pid'] + '.new', 'w') as f:
            f.write('%d %s\n' % (os.getpid(), started(os.getpid())))
        os.rename(daemon['pid'] + '.new', daemon['pid'])
        log = os.open(daemon['log'], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ['LAB_READY'] = daemon['ready']
        import eventlet
        eventlet.hubs.use_hub()  # not the parent's
        sys.argv = daemon['argv']
        PROGRAMS[sys.argv[0]]()
        os._exit(0)


if __name__ == '__main__':
    sys.argv = sys.argv[1:]
    if sys.argv[0] == 'fork':
        plan = json.loads(sys.argv[1])
        sys.argv = [plan['service']]
        fork(plan)
    else:
        PROGRAMS[sys.argv[0]]()
