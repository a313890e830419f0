package openstack_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// What others do in the project, by calls of our own: the module isn't asked.

// raw returns a function for recipes that gets texts and a client.
func (w *world) raw(name string, f func(*client.Client, []string) error) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		texts := make([]string, len(args))
		for i, a := range args {
			texts[i], _ = starlark.AsString(a)
		}
		c, err := w.client()
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return starlark.None, f(c, texts)
	})
}

func (w *world) client() (*client.Client, error) {
	file, err := client.ReadClouds(filepath.Join(w.dir, "clouds.yaml"), nil)
	if err != nil {
		return nil, err
	}
	entry, err := file.Entry("lab", client.Given{})
	if err != nil {
		return nil, err
	}
	return client.Connect(context.Background(), entry)
}

// file makes a file as artifact.fetch returns it.
func (w *world) file(name, content string) starlark.Value {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	return effect.NewObject("artifact.file", map[string]any{"path": path, "sha256": hex.EncodeToString(sum[:]), "size": len(content)})
}

func (w *world) rawNetwork(c *client.Client, name, description string) error {
	_, err := c.Do(context.Background(), client.Call{Service: client.Network, Method: http.MethodPost, Path: "/networks",
		Body: client.Object{"network": client.Object{"name": name, "description": description}}})
	return err
}

// describe changes the description of a network.
func (w *world) describe(c *client.Client, id, description string) error {
	_, err := c.Do(context.Background(), client.Call{Service: client.Network, Method: http.MethodPut, Path: "/networks/" + id,
		Body: client.Object{"network": client.Object{"description": description}}})
	return err
}

func (w *world) newImage(c *client.Client, body client.Object) (string, error) {
	body["disk_format"], body["container_format"] = "raw", "bare"
	obj, err := c.Do(context.Background(), client.Call{Service: client.Image, Method: http.MethodPost, Path: "/images", Body: body})
	if err != nil {
		return "", err
	}
	return obj["id"].(string), nil
}

func (w *world) foreignImage(c *client.Client, name, content string) error {
	id, err := w.newImage(c, client.Object{"name": name})
	if err != nil {
		return err
	}
	_, err = c.Do(context.Background(), client.Call{Service: client.Image, Method: http.MethodPut, Path: "/images/" + id + "/file", Stream: strings.NewReader(content)})
	return err
}

// hangingImage begins an upload that doesn't end before the test does.
func (w *world) hangingImage(c *client.Client, name, mark, digest string) error {
	id, err := w.newImage(c, client.Object{"name": name, "gsrun_mark": mark, "gsrun_sha256": digest})
	if err != nil {
		return err
	}
	r, send := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It fails when the pipe is closed; what matters is that it hangs until then.
		_, _ = c.Do(ctx, client.Call{Service: client.Image, Method: http.MethodPut, Path: "/images/" + id + "/file", Stream: endless{r}})
	}()
	w.t.Cleanup(func() { cancel(); send.Close(); <-done })
	if _, err := send.Write([]byte("begin")); err != nil {
		return err
	}
	return w.await(c, "/images/"+id, client.Image, "", "saving")
}

type endless struct{ io.Reader }

func (endless) Seek(int64, int) (int64, error) { return 0, nil }

func (w *world) await(c *client.Client, path string, s client.Service, key, status string) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		obj, err := c.Do(context.Background(), client.Call{Service: s, Method: http.MethodGet, Path: path})
		if err != nil {
			return err
		}
		if key != "" {
			obj, _ = obj[key].(client.Object)
		}
		if obj["status"] == status {
			return nil
		}
	}
	return fmt.Errorf("%s isn't %s after 10 s", path, status)
}

func (w *world) one(c *client.Client, s client.Service, path, key, name string) (client.Object, error) {
	all, err := c.List(context.Background(), client.Call{Service: s, Path: path, Query: url.Values{"name": {name}}}, key)
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("%d called %s: %v", len(all), name, err)
	}
	return all[0], nil
}

func (w *world) foreignServer(c *client.Client, name, network string) error {
	image, err := w.one(c, client.Image, "/images", "images", "lab-tiny")
	if err != nil {
		return err
	}
	net, err := w.one(c, client.Network, "/networks", "networks", network)
	if err != nil {
		return err
	}
	flavors, err := c.List(context.Background(), client.Call{Service: client.Compute, Path: "/flavors/detail"}, "flavors")
	if err != nil {
		return err
	}
	flavor := ""
	for _, f := range flavors {
		if f["name"] == "m1.small" {
			flavor = f["id"].(string)
		}
	}
	s, err := c.One(context.Background(), client.Call{Service: client.Compute, Method: http.MethodPost, Path: "/servers", Body: client.Object{"server": client.Object{
		"name": name, "imageRef": image["id"], "flavorRef": flavor, "networks": []any{client.Object{"uuid": net["id"]}}}}}, "server")
	if err != nil {
		return err
	}
	return w.await(c, "/servers/"+s["id"].(string), client.Compute, "server", "ACTIVE")
}

func (w *world) stopServer(c *client.Client, name string) error {
	s, err := w.one(c, client.Compute, "/servers", "servers", "^"+name+"$")
	if err != nil {
		return err
	}
	path := "/servers/" + s["id"].(string)
	if _, err := c.Do(context.Background(), client.Call{Service: client.Compute, Method: http.MethodPost, Path: path + "/action", Body: client.Object{"os-stop": nil}}); err != nil {
		return err
	}
	return w.await(c, path, client.Compute, "server", "SHUTOFF")
}

func (w *world) renameServer(c *client.Client, name, to string) error {
	s, err := w.one(c, client.Compute, "/servers", "servers", "^"+name+"$")
	if err != nil {
		return err
	}
	_, err = c.Do(context.Background(), client.Call{Service: client.Compute, Method: http.MethodPut, Path: "/servers/" + s["id"].(string),
		Body: client.Object{"server": client.Object{"name": to}}})
	return err
}

// console is what a server's console says: host keys, as cloud-init writes
// them behind the console's own prefixes.
func (w *world) console(string) string {
	if w.silent.Load() {
		return "login:\n"
	}
	return "[    0.0] Linux\nci-info: -----BEGIN SSH HOST KEY KEYS-----\n" +
		"[   12.1] cloud-init[500]: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq root@gw\n" +
		"ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg= root@gw\n" +
		"-----END SSH HOST KEY KEYS-----\nlogin:\n"
}
