package openstack

import (
	"context"
	"net/http"
	"slices"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An actOp does something to a server that is there.
type actOp struct {
	cloud   *Cloud
	name    string
	mark    string
	adopt   bool
	timeout time.Duration
	// diff tells what there is to do to a server.
	diff func(obj client.Object) effect.Change
	// apply does it.
	apply func(ctx context.Context, m machine, obj client.Object, c effect.Change) (client.Object, error)
}

func (o *actOp) Target() effect.Target { return o.cloud.target("server", o.name) }

func (o *actOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, err := findServer(ctx, cl, o.name, o.mark, adoption{same: o.adopt})
	switch {
	case err != nil:
		return effect.State{}, adoptMeans(err, "adopt = True does it to the server though it is somebody else's: be sure that they agree")
	case obj == nil:
		return effect.State{}, fault.New(fault.NotFound, "there is no server called %q", o.name)
	case str(obj, "status") == "ERROR":
		return effect.State{}, serverFailed(obj, o.name, "is in ERROR")
	}
	return effect.State{Exists: true, Attrs: serverData(obj), Raw: obj}, nil
}

func (o *actOp) Diff(st effect.State) (effect.Change, error) {
	c := o.diff(st.Raw.(client.Object))
	if c.Kind == effect.None {
		return c, nil
	}
	c.Reach = o.cloud.reach("server")
	c.After = map[string]any{}
	for k, v := range st.Attrs {
		c.After[k] = v
	}
	for _, f := range c.Fields {
		if f.Path == "flavor" {
			c.After["availability_zone"] = effect.Unknown{Of: o.Target().String() + " availability_zone"} // it moves to another hypervisor
		}
		if _, shown := c.After[f.Path]; shown {
			c.After[f.Path] = f.New
		}
	}
	return c, nil
}

func (o *actOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj := c.Before.Raw.(client.Object)
	m := machine{cloud: o.cloud, cl: cl, id: str(obj, "id"), name: o.name, timeout: o.timeout}
	if obj, err = m.settle(ctx, obj); err != nil {
		return effect.State{}, err
	}
	if obj, err = o.apply(ctx, m, obj, c); err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: serverData(obj), Raw: obj}, nil
}

// run runs the op and returns the server.
func (o *actOp) run(ctx context.Context) (any, error) {
	var err error
	if o.mark, err = markFor(ctx, o.cloud, "server", o.name); err != nil {
		return nil, err
	}
	st, err := o.cloud.do(ctx, o)
	if err != nil {
		return nil, err
	}
	if st.Unknown {
		return effect.Unknown{Of: o.Target().String()}, nil
	}
	return &Server{cloud: o.cloud, attrs: st.Attrs}, nil
}

// actErrors are how any of these verbs may fail.
var actErrors = []fault.Kind{fault.Exists, fault.Failed, fault.NotFound, fault.Timeout}

type powerArgs struct {
	Name    string        `star:"name,required" doc:"The name that it was ensured with."`
	Timeout time.Duration `star:"timeout" doc:"How long to wait until it is done."`
	Adopt   bool          `star:"adopt" doc:"Do it even to a server that lacks this recipe's owner mark."`
}

// powerVerb is start or stop: it brings a server to that status.
func powerVerb(name, want string) builtin.Func {
	doc := map[string]string{"start": "Start the server of that name, if it is shut off, and wait until it runs.",
		"stop": "Shut the server of that name off, if it runs, and wait until it is off."}[name]
	return builtin.Of(builtin.Spec[*Cloud, powerArgs]{
		Name: name, Doc: doc, Returns: "openstack.server", Effect: builtin.Changes, Errors: actErrors,
		Example:  serverExample + "cloud.server." + name + `("gw")`,
		Defaults: powerArgs{Timeout: 5 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a powerArgs) (any, error) {
			return (&actOp{cloud: c, name: a.Name, adopt: a.Adopt, timeout: a.Timeout,
				diff: func(obj client.Object) effect.Change {
					if str(obj, "status") == want {
						return effect.Unchanged()
					}
					return effect.Change{Kind: effect.Update, Fields: []effect.Field{{Path: "status", Old: obj["status"], New: want}}}
				},
				apply: func(ctx context.Context, m machine, obj client.Object, _ effect.Change) (client.Object, error) {
					return m.power(ctx, obj, want)
				}}).run(ctx)
		},
	})
}

// serverExample makes the server that the examples are about.
const serverExample = "net = cloud.network.ensure(\"mgmt\")\n" +
	"cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
	"cloud.server.ensure(\"gw\", image = \"lab-tiny\", flavor = \"m1.small\", networks = [net])\n"

type rebootArgs struct {
	Name    string        `star:"name,required" doc:"The name that it was ensured with."`
	Hard    bool          `star:"hard" doc:"Take the power off, in place of asking the system to restart. A server that is shut off can only be started."`
	Key     string        `star:"key" doc:"Restart once for this key, such as a kernel's version: it is kept in the server's metadata. Without one it is restarted by each run."`
	Timeout time.Duration `star:"timeout" doc:"How long to wait until it runs again."`
	Adopt   bool          `star:"adopt" doc:"Do it even to a server that lacks this recipe's owner mark."`
}

func rebootVerb() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, rebootArgs]{
		Name:     "reboot",
		Doc:      "Restart the server of that name and wait until the cloud says that it runs. With a key it is done once; a run that is killed between the restart and the note of it restarts again.",
		Returns:  "openstack.server",
		Example:  serverExample + `cloud.server.reboot("gw", key = "kernel 6.12")`,
		Effect:   builtin.Changes,
		Errors:   actErrors,
		Defaults: rebootArgs{Timeout: 5 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a rebootArgs) (any, error) {
			kind := "SOFT"
			if a.Hard {
				kind = "HARD"
			}
			return (&actOp{cloud: c, name: a.Name, adopt: a.Adopt, timeout: a.Timeout, diff: onceFor("reboot", a.Key),
				apply: func(ctx context.Context, m machine, _ client.Object, _ effect.Change) (client.Object, error) {
					if _, err := serverAction(ctx, m.cl, m.id, client.Object{"reboot": client.Object{"type": kind}}); err != nil {
						return nil, err
					}
					obj, err := m.await(ctx, "ACTIVE")
					if err != nil || a.Key == "" {
						return obj, err
					}
					stamp := client.Object{"metadata": client.Object{stampKey + "reboot": a.Key}}
					if _, err := m.cl.Do(ctx, serverCall(http.MethodPost, "/"+m.id+"/metadata", stamp)); err != nil {
						return nil, err
					}
					return obj, nil
				}}).run(ctx)
		},
	})
}

// onceFor is the diff of what is done once for each key.
func onceFor(what, key string) func(client.Object) effect.Change {
	return func(obj client.Object) effect.Change {
		have, _ := obj["metadata"].(client.Object)
		if key != "" && have[stampKey+what] == key {
			return effect.Unchanged()
		}
		c := effect.Change{Kind: effect.Run, Fields: []effect.Field{{Path: what, New: key}}}
		if key == "" {
			c.Fields, c.Note = []effect.Field{{Path: what, New: "now"}}, "at least once"
		}
		return c
	}
}

type rebuildArgs struct {
	Name    string           `star:"name,required" doc:"The name that it was ensured with."`
	Image   effect.Reference `star:"image" of:"openstack.image" doc:"The image to make its disk of, by name, id or object. Default: that which it has."`
	Key     string           `star:"key" doc:"Rebuild once for this key: it is kept in the server's metadata, set by the same call. Without one it is rebuilt by each run."`
	Timeout time.Duration    `star:"timeout" doc:"How long to wait until it runs again."`
	Adopt   bool             `star:"adopt" doc:"Do it even to a server that lacks this recipe's owner mark."`
}

func rebuildVerb() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, rebuildArgs]{
		Name:     "rebuild",
		Doc:      "Make the disk of the server of that name anew: what is on it is lost; id, ports and addresses stay. A volume that it boots from keeps what is on it. To follow a new image, `rebuild = True` of ensure is enough.",
		Returns:  "openstack.server",
		Example:  serverExample + `cloud.server.rebuild("gw", key = "2026-10")`,
		Effect:   builtin.Changes,
		Errors:   append(slices.Clone(actErrors), fault.Invalid),
		Defaults: rebuildArgs{Timeout: 10 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a rebuildArgs) (any, error) {
			return (&actOp{cloud: c, name: a.Name, adopt: a.Adopt, timeout: a.Timeout, diff: onceFor("rebuild", a.Key),
				apply: func(ctx context.Context, m machine, obj client.Object, _ effect.Change) (client.Object, error) {
					find := func() (any, error) { return imageToRebuild(ctx, m.cl, obj) }
					if !a.Image.Empty() {
						find = func() (any, error) { return resolveImage(ctx, c, m.cl, a.Image) }
					}
					image, err := find()
					if err != nil {
						return nil, err
					}
					body := client.Object{"imageRef": image}
					if a.Key != "" {
						body["metadata"] = withMetadata(obj, stampKey+"rebuild", a.Key, nil)
					}
					return m.rebuild(ctx, serverCall(http.MethodPost, "/"+m.id+"/action", client.Object{"rebuild": body}))
				}}).run(ctx)
		},
	})
}

type resizeArgs struct {
	Name    string           `star:"name,required" doc:"The name that it was ensured with."`
	Flavor  effect.Reference `star:"flavor,required" of:"openstack.flavor" doc:"The flavor to have, by name, id or object."`
	Timeout time.Duration    `star:"timeout" doc:"How long each wait may take until it is done."`
	Adopt   bool             `star:"adopt" doc:"Do it even to a server that lacks this recipe's owner mark."`
}

func resizeVerb() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, resizeArgs]{
		Name:     "resize",
		Doc:      "Give the server of that name another flavor, which restarts it, and confirm that. One that is off stays off.",
		Returns:  "openstack.server",
		Example:  serverExample + `cloud.server.resize("gw", flavor = "m1.medium")`,
		Effect:   builtin.Changes,
		Errors:   append(slices.Clone(actErrors), fault.Invalid, fault.Quota),
		Defaults: resizeArgs{Timeout: 10 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a resizeArgs) (any, error) {
			if a.Flavor.Empty() {
				return nil, fault.New(fault.Invalid, "%s: the flavor is empty, or None", c.target("server", a.Name))
			}
			v, err := effect.Read(ctx, effect.Query{Target: c.target("flavor", a.Flavor.String()), Scope: c.target("flavor", "").String()}, func(ctx context.Context) (string, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return "", err
				}
				id, err := (&serverOp{cloud: c, args: serverArgs{Flavor: a.Flavor}}).flavor(ctx, cl)
				s, _ := id.(string)
				return s, err
			})
			if err != nil {
				return nil, err
			}
			flavor, known := v.(string)
			if !known {
				return effect.Unknown{Of: c.target("server", a.Name).String()}, nil
			}
			return (&actOp{cloud: c, name: a.Name, adopt: a.Adopt, timeout: a.Timeout,
				diff: func(obj client.Object) effect.Change {
					now, _ := obj["flavor"].(client.Object)
					if now["id"] == flavor && str(obj, "status") != "VERIFY_RESIZE" {
						return effect.Unchanged()
					}
					return effect.Change{Kind: effect.Update, Fields: []effect.Field{{Path: "flavor", Old: now["id"], New: flavor}}, Note: "it restarts"}
				},
				apply: func(ctx context.Context, m machine, obj client.Object, _ effect.Change) (client.Object, error) {
					if now, _ := obj["flavor"].(client.Object); now["id"] == flavor {
						return obj, nil // what was under way is this
					}
					return m.resize(ctx, flavor)
				}}).run(ctx)
		},
	})
}

type serverWaitArgs struct {
	Name    string        `star:"name,required" doc:"The name, or the id."`
	Status  string        `star:"status" doc:"The status to wait for, as Nova calls it."`
	Timeout time.Duration `star:"timeout" doc:"How long to wait."`
}

func serverWait() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, serverWaitArgs]{
		Name:     "wait",
		Doc:      "Wait until the server of that name or id has a status, and nothing is being done with it. One that isn't there yet is waited for; one that ends in ERROR is an error.",
		Returns:  "openstack.server",
		Example:  serverExample + `cloud.server.wait("gw", status = "ACTIVE", timeout = "2m")`,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Failed, fault.Invalid, fault.Timeout},
		Defaults: serverWaitArgs{Status: "ACTIVE", Timeout: 5 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a serverWaitArgs) (any, error) {
			if err := knownStatus(a.Status, serverStatuses()); err != nil {
				return nil, fault.Wrap("", c.target("server", a.Name).String(), err)
			}
			w := effect.Wait{Query: effect.Query{Target: c.target("server", a.Name)}, For: "server " + a.Name + " being " + a.Status, Timeout: a.Timeout, Interval: c.config.Interval}
			return effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return effect.Poll{}, err
				}
				obj, err := serverByName(ctx, cl, a.Name)
				switch {
				case fault.KindOf(err) == fault.NotFound:
					return effect.Poll{Seen: "it isn't there"}, nil
				case err != nil:
					return effect.Poll{}, err
				case str(obj, "status") == "ERROR" && a.Status != "ERROR":
					return effect.Poll{}, serverFailed(obj, a.Name, "ended in ERROR")
				case str(obj, "status") != a.Status || str(obj, "OS-EXT-STS:task_state") != "":
					return effect.Poll{Seen: "it is " + serverState(obj)}, nil
				}
				return effect.Poll{Done: true, Value: &Server{cloud: c, attrs: serverData(obj)}}, nil
			})
		},
	})
}
