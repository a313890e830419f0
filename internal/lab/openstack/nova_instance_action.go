package openstack

import "time"

// serverEvent is an entry of a server's list of actions.
type serverEvent struct {
	action, request, user, project string
	message                        any // nil, or "Error"
	at                             time.Time
}

// eventNames are the names that Nova keeps actions under, where they aren't
// those of the API.
var eventNames = map[string]string{"os-start": "start", "os-stop": "stop", "confirmResize": "confirmResize", "revertResize": "revertResize", "forceDelete": "delete"}

// noEvents are the actions that leave no entry.
var noEvents = []string{"os-getConsoleOutput", "addSecurityGroup", "removeSecurityGroup", "os-resetState"}

// noteEvent adds to the list of a server's actions.
func (c *Cloud) noteEvent(r *request, s *server, action string) {
	if name, other := eventNames[action]; other {
		action = name
	}
	s.events = append(s.events, serverEvent{action: action, request: r.id, user: r.token.user.id, project: r.token.project.id, at: c.now()})
}

func (e serverEvent) doc(r *request, s *server) doc {
	d := doc{"action": e.action, "instance_uuid": s.id, "request_id": e.request, "user_id": e.user, "project_id": e.project,
		"start_time": isoOrNil(e.at), "message": e.message}
	if r.version >= 58 {
		d["updated_at"] = isoOrNil(e.at)
	}
	return d
}

func (c *Cloud) actionList(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	out := []any{}
	for i := len(s.events) - 1; i >= 0; i-- {
		out = append(out, s.events[i].doc(r, s))
	}
	if n, given := integer(r.query.Get("limit")); given && r.version >= 58 && n >= 0 && n < len(out) {
		next := r.base + "/compute" + r.path + "?limit=" + r.query.Get("limit") + "&marker=" + str(out[n-1].(doc), "request_id")
		return ok(doc{"instanceActions": out[:n], "links": []any{doc{"rel": "next", "href": next}}})
	}
	return ok(doc{"instanceActions": out})
}

func (c *Cloud) actionShow(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	for _, e := range s.events {
		if e.request == r.arg("request") {
			d := e.doc(r, s)
			if r.version >= 51 || r.token.admin {
				d["events"] = []any{}
			}
			return ok(doc{"instanceAction": d})
		}
	}
	return answer{}, refuse(404, "Action for request_id %s on instance %s not found", r.arg("request"), s.id)
}
