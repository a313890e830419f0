package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A machine is a server that is being changed.
type machine struct {
	cloud    *Cloud
	cl       *client.Client
	id, name string
	timeout  time.Duration
}

// await waits until the server has one of the states.
func (m machine) await(ctx context.Context, states ...string) (client.Object, error) {
	var seen client.Object
	wanted := states[0]
	if len(states) > 1 {
		wanted = "at rest"
	}
	w := waiting{target: m.cloud.target("server", m.name), what: "server " + m.name + " (" + m.id + ") being " + wanted, timeout: m.timeout,
		hint: "give it more time with timeout, or ask the cloud's operators what holds it; the next run goes on waiting for it"}
	err := m.cloud.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		obj, err := getServer(ctx, m.cl, m.id)
		if err != nil {
			return "", false, err
		}
		if str(obj, "status") == "ERROR" && !slices.Contains(states, "ERROR") {
			return "", false, bootFailed(obj, m.name, "ended in ERROR")
		}
		seen = obj
		done := slices.Contains(states, str(obj, "status")) && str(obj, "OS-EXT-STS:task_state") == ""
		return "it is " + serverState(obj), done, nil
	})
	return seen, err
}

// settle waits until nothing is being done with the server, and confirms a
// resize that waits for that.
func (m machine) settle(ctx context.Context, obj client.Object) (client.Object, error) {
	rest := []string{"ACTIVE", "SHUTOFF", "VERIFY_RESIZE"}
	var err error
	if !slices.Contains(rest, str(obj, "status")) || str(obj, "OS-EXT-STS:task_state") != "" {
		if obj, err = m.await(ctx, rest...); err != nil {
			return nil, err
		}
	}
	if str(obj, "status") == "VERIFY_RESIZE" {
		return m.confirm(ctx)
	}
	return obj, nil
}

func (m machine) confirm(ctx context.Context) (client.Object, error) {
	if _, err := serverAction(ctx, m.cl, m.id, client.Object{"confirmResize": nil}); err != nil {
		return nil, err
	}
	return m.await(ctx, "ACTIVE", "SHUTOFF")
}

// resize changes the flavor and confirms that.
func (m machine) resize(ctx context.Context, flavor any) (client.Object, error) {
	if _, err := serverAction(ctx, m.cl, m.id, client.Object{"resize": client.Object{"flavorRef": flavor}}); err != nil {
		return nil, err
	}
	// A cloud may confirm by itself. One that finds no room takes the server back to what it was.
	obj, err := m.await(ctx, "VERIFY_RESIZE", "ACTIVE", "SHUTOFF")
	if err != nil {
		return nil, err
	}
	if str(obj, "status") == "VERIFY_RESIZE" {
		return m.confirm(ctx)
	}
	if now, _ := obj["flavor"].(client.Object); now["id"] != flavor {
		why := "the cloud gives no reason"
		if f, _ := obj["fault"].(client.Object); str(f, "message") != "" {
			why = str(f, "message")
		}
		return nil, fault.Hinted(fault.Failed, "it is as before; the cloud may have no other hypervisor with room for the flavor, in the availability zone that the server was made for", "server %s (%s) wasn't resized: %s", m.name, m.id, why)
	}
	return obj, nil
}

// rebuild sends the call, whose host keys are others afterwards.
func (m machine) rebuild(ctx context.Context, call client.Call) (client.Object, error) {
	if _, err := m.cloud.forgetHostKeys(ctx, m.id); err != nil {
		return nil, err
	}
	if _, err := m.cl.Do(ctx, call); err != nil {
		return nil, err
	}
	return m.await(ctx, "ACTIVE", "SHUTOFF")
}

// power brings a server at rest to ACTIVE or SHUTOFF.
func (m machine) power(ctx context.Context, obj client.Object, want string) (client.Object, error) {
	if str(obj, "status") == want {
		return obj, nil
	}
	action := map[string]string{"ACTIVE": "os-start", "SHUTOFF": "os-stop"}[want]
	if _, err := serverAction(ctx, m.cl, m.id, client.Object{action: nil}); err != nil {
		return nil, err
	}
	return m.await(ctx, want)
}

func (m machine) setTags(ctx context.Context, tags []any) error {
	_, err := m.cl.Do(ctx, serverCall(http.MethodPut, "/"+m.id+"/tags", client.Object{"tags": tags}))
	return err
}

// attach gives the server a port: on a network ("net_id"), or one of one's own
// ("port_id").
func (m machine) attach(ctx context.Context, key, id string) error {
	_, err := m.cl.Do(ctx, serverCall(http.MethodPost, "/"+m.id+"/os-interface", client.Object{"interfaceAttachment": client.Object{key: id}}))
	if key == "port_id" && fault.KindOf(err) == fault.Conflict {
		users, perr := portUsers(ctx, m.cl, url.Values{"id": {id}})
		if perr == nil {
			return blamed(err, users)
		}
	}
	return err
}

// detach takes a port off, and waits until it is off: for Neutron, and for Nova,
// which shows its addresses a while longer.
func (m machine) detach(ctx context.Context, port string) error {
	mac := ""
	look := func(ctx context.Context) (on bool, err error) {
		out, err := m.cl.List(ctx, serverCall(http.MethodGet, "/"+m.id+"/os-interface", nil), "interfaceAttachments")
		for _, o := range out {
			if str(o, "port_id") == port {
				mac, on = str(o, "mac_addr"), true
			}
		}
		return on, err
	}
	if _, err := look(ctx); err != nil {
		return err
	}
	_, err := m.cl.Do(ctx, serverCall(http.MethodDelete, "/"+m.id+"/os-interface/"+port, nil))
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	t := m.cloud.target("server", m.name)
	return m.cloud.await(ctx, waiting{target: t, what: "port " + port + " being off server " + m.name, timeout: m.timeout, hint: "the cloud's operators can tell what holds it"},
		func(ctx context.Context) (string, bool, error) {
			on, err := look(ctx)
			if on || err != nil {
				return "it is still on", false, err
			}
			obj, err := getServer(ctx, m.cl, m.id)
			return "the server still has its address", err == nil && !hasMAC(obj, mac), err
		})
}

// hasMAC reports whether a server shows an address of the port with that MAC.
func hasMAC(server client.Object, mac string) bool {
	all, _ := server["addresses"].(client.Object)
	for network := range all {
		if slices.ContainsFunc(objects(all, network), func(a client.Object) bool { return str(a, "OS-EXT-IPS-MAC:mac_addr") == mac }) {
			return true
		}
	}
	return false
}
