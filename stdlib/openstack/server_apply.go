package openstack

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func (o *serverOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, _ := c.Before.Raw.(client.Object)
	id := str(obj, "id")
	switch c.Kind {
	case effect.Replace:
		if err := removeServer(ctx, o.cloud, cl, id); err != nil {
			return effect.State{}, err
		}
		id, err = o.create(ctx, cl)
	case effect.Create:
		id, err = o.create(ctx, cl)
	case effect.Update:
		err = o.update(ctx, cl, obj, c)
	}
	if err != nil {
		return effect.State{}, err
	}
	if obj, err = o.awaitActive(ctx, cl, id); err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: serverData(obj), Raw: obj}, nil
}

func (o *serverOp) create(ctx context.Context, cl *client.Client) (string, error) {
	body := client.Object{"name": o.args.Name, "description": o.mark}
	meta := client.Object{}
	for k, v := range o.args.Metadata {
		meta[k] = v.Reveal()
	}
	nics := []any{}
	for _, f := range o.fields {
		switch f.attr {
		case "networks", "ports":
			key := map[string]string{"networks": "uuid", "ports": "port"}[f.attr]
			for _, id := range f.want.([]any) {
				nics = append(nics, client.Object{key: id})
			}
		case "user_data":
			meta[userDataKey] = f.want
		case "security_groups":
			groups := []any{}
			for _, ref := range o.args.SecurityGroups {
				groups = append(groups, client.Object{"name": ref.ID.Reveal()}) // an id is taken too, and names may repeat
			}
			body["security_groups"] = groups
		default:
			f.put(body)
		}
	}
	body["networks"] = nics
	if len(meta) > 0 {
		body["metadata"] = meta
	}
	if !o.args.UserData.Empty() {
		body["user_data"] = base64.StdEncoding.EncodeToString([]byte(o.args.UserData.Reveal()))
	}
	made, err := cl.One(ctx, serverCall(http.MethodPost, "", client.Object{"server": body}), "server")
	o.sent.note(ctx, made, err)
	if fault.KindOf(err) == fault.Conflict {
		err = o.blame(ctx, cl, nics, err)
	}
	return str(made, "id"), err
}

// blame names what uses the ports that a new server asks for.
func (o *serverOp) blame(ctx context.Context, cl *client.Client, nics []any, err error) error {
	var users []string
	for _, n := range nics {
		if id := str(n.(client.Object), "port"); id != "" {
			p, perr := portUsers(ctx, cl, url.Values{"id": {id}})
			if perr != nil {
				return err // the first error says what went wrong
			}
			users = append(users, p...)
		}
	}
	if len(users) == 0 {
		return err
	}
	return &fault.Error{Kind: fault.Conflict, Hint: "the ports are: " + joinSome(users), After: fault.AfterOf(err), Err: err}
}

func (o *serverOp) update(ctx context.Context, cl *client.Client, obj client.Object, c effect.Change) error {
	id := str(obj, "id")
	meta := client.Object{}
	for _, f := range c.Fields {
		switch key, isMeta := strings.CutPrefix(f.Path, "metadata."); {
		case isMeta:
			meta[key] = o.args.Metadata[key].Reveal()
		case f.Path == "name":
			if _, err := cl.Do(ctx, serverCall(http.MethodPut, "/"+id, client.Object{"server": client.Object{"name": o.args.Name}})); err != nil {
				return err
			}
		case f.Path == "security_groups":
			if err := o.regroup(ctx, cl, id, f); err != nil {
				return err
			}
		case f.Path == "status" && f.Old == "SHUTOFF":
			if _, err := serverAction(ctx, cl, id, client.Object{"os-start": nil}); err != nil {
				return err
			}
		}
	}
	if len(meta) > 0 {
		_, err := cl.Do(ctx, serverCall(http.MethodPost, "/"+id+"/metadata", client.Object{"metadata": meta}))
		return err
	}
	return nil
}

// regroup adds security groups before it takes others off.
func (o *serverOp) regroup(ctx context.Context, cl *client.Client, id string, f effect.Field) error {
	want, _ := f.New.([]any)
	have, _ := f.Old.([]any)
	for _, w := range want {
		if !slices.Contains(have, w) {
			if _, err := serverAction(ctx, cl, id, client.Object{"addSecurityGroup": client.Object{"name": w}}); err != nil {
				return err
			}
		}
	}
	for _, h := range have {
		if !slices.Contains(want, h) {
			if _, err := serverAction(ctx, cl, id, client.Object{"removeSecurityGroup": client.Object{"name": h}}); err != nil && fault.KindOf(err) != fault.NotFound {
				return err
			}
		}
	}
	return nil
}

// awaitActive waits until the server runs.
func (o *serverOp) awaitActive(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
	var running client.Object
	w := waiting{target: o.Target(), what: "server " + o.args.Name + " (" + id + ") being ACTIVE", timeout: o.args.Timeout,
		hint: "give it more time with timeout, or ask the cloud's operators what holds it; the next run goes on waiting for it"}
	err := o.cloud.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		obj, err := getServer(ctx, cl, id)
		if err != nil {
			return "", false, err
		}
		if str(obj, "status") == "ERROR" {
			return "", false, serverFailed(obj, o.args.Name, "ended in ERROR")
		}
		running = obj
		return "it is " + serverState(obj), str(obj, "status") == "ACTIVE", nil
	})
	return running, err
}

// serverFailed is the error for a server in ERROR, with the cloud's reason.
func serverFailed(obj client.Object, name, how string) error {
	reason, _ := obj["fault"].(client.Object)
	message := str(reason, "message")
	hint := "see `openstack server show " + str(obj, "id") + "`; replace = True deletes it and makes it anew"
	if strings.Contains(message, "No valid host") {
		hint = "no hypervisor has room for this flavor, or none fits availability_zone: choose others, then replace = True deletes the server and makes it anew"
	}
	if message == "" {
		message = "the cloud gives no reason"
	}
	return fault.Hinted(fault.Failed, hint, "server %s (%s) %s: %s", name, str(obj, "id"), how, message)
}
