package openstack

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// consoleOutput answers the console's last lines. The hook is asked without the Cloud's lock, because the
// host simulator may ask the Cloud in turn.
func (c *Cloud) consoleOutput(s *server, body doc) (answer, error) {
	if s.host == nil || s.vmState == "building" {
		return answer{}, refuse(409, "Instance %s is not ready", s.id)
	}
	length := -1
	if v, given := body["length"]; given && v != nil {
		n, valid := integer(v)
		if !valid || n < -1 {
			return answer{}, invalidField("length", v, "it is no number of -1 or more")
		}
		length = n
	}
	out := ""
	if c.cfg.ConsoleLog != nil {
		id := s.id
		func() {
			c.mu.Unlock()
			defer c.mu.Lock()
			out = c.cfg.ConsoleLog(id)
		}()
	} else {
		data, _ := base64.StdEncoding.DecodeString(s.userData) // checked when it came
		out = fmt.Sprintf("[    0.000000] Linux version lab (%s)\ncloud-init: user-data %d bytes\n%s login: ", s.id, len(data), s.hostname)
	}
	if length >= 0 {
		lines := strings.SplitAfter(out, "\n")
		if n := len(lines); n > 0 && lines[n-1] == "" {
			lines = lines[:n-1]
		}
		out = strings.Join(lines[max(len(lines)-length, 0):], "")
	}
	return ok(doc{"output": out})
}

func (c *Cloud) remoteConsole(r *request) (answer, error) {
	if r.version < 6 {
		return answer{}, tooOld()
	}
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	in, err := r.object("remote_console")
	if err != nil {
		return answer{}, err
	}
	if s.vmState != "active" {
		return answer{}, refuse(409, "Instance %s is not ready", s.id)
	}
	protocol, kind := str(in, "protocol"), str(in, "type")
	if protocol != "vnc" || kind != "novnc" {
		return answer{}, refuse(400, "Unavailable console type %s.", kind)
	}
	return ok(doc{"remote_console": doc{"protocol": protocol, "type": kind, "url": r.base + "/compute/vnc_auto.html?path=%3Ftoken%3D" + newSecret()[:32]}})
}
