"""Runs one daemon or one management command: serve.py NAME ARGUMENT...

A daemon makes the file that the variable LAB_READY names once it works.
"""
import importlib
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
}

if __name__ == '__main__':
    sys.argv = sys.argv[1:]
    PROGRAMS[sys.argv[0]]()
