package openstack

import (
	"encoding/json"
	"slices"
	"time"
)

// imageMember is a project that an image is shared with.
type imageMember struct {
	project, status  string // pending, accepted, rejected
	created, updated time.Time
}

func (m *image) member(project string) *imageMember {
	i := slices.IndexFunc(m.members, func(x *imageMember) bool { return x.project == project })
	if i < 0 {
		return nil
	}
	return m.members[i]
}

func memberDoc(m *image, x *imageMember) doc {
	return doc{"image_id": m.id, "member_id": x.project, "status": x.status, "created_at": stamp(x.created), "updated_at": stamp(x.updated), "schema": "/v2/schemas/member"}
}

func (c *Cloud) imageMemberList(r *request) (answer, error) {
	m, err := c.findImage(r, "get_members", false)
	if err != nil {
		return answer{}, err
	}
	if m.visibility != "shared" {
		return answer{}, refuse(403, "Not allowed to list members for image %s: Only shared images have members.", m.id)
	}
	out := []any{}
	for _, x := range m.members {
		if m.ownedBy(r.token) || x.project == r.token.project.id {
			out = append(out, memberDoc(m, x))
		}
	}
	return ok(doc{"members": out, "schema": "/v2/schemas/members"})
}

func (c *Cloud) imageMemberAdd(r *request) (answer, error) {
	m, err := c.findImage(r, "add_member", false)
	if err != nil {
		return answer{}, err
	}
	var in doc
	if json.Unmarshal(r.body, &in) != nil || !has(in, "member") {
		return answer{}, refuse(400, "Member to be added not specified")
	}
	project := text(in["member"])
	switch {
	case project == "":
		return answer{}, refuse(400, "Member can't be empty")
	case m.visibility != "shared" || !m.ownedBy(r.token):
		return answer{}, refuse(403, "Not allowed to create members for image %s.", m.id)
	case m.member(project) != nil:
		return answer{}, refuse(409, "Member %s is duplicated for image %s", project, m.id)
	}
	x := &imageMember{project: project, status: "pending", created: c.now(), updated: c.now()}
	m.members = append(m.members, x)
	return ok(memberDoc(m, x))
}

// findMember gives an image and one of its members.
func (c *Cloud) findMember(r *request, action string) (*image, *imageMember, error) {
	m, err := c.findImage(r, action, false)
	if err != nil {
		return nil, nil, err
	}
	x := m.member(r.arg("member"))
	if x == nil || !m.ownedBy(r.token) && x.project != r.token.project.id {
		return nil, nil, refuse(404, "%s not found in the member list of the image %s.", r.arg("member"), m.id)
	}
	return m, x, nil
}

func (c *Cloud) imageMemberShow(r *request) (answer, error) {
	m, x, err := c.findMember(r, "get_member")
	if err != nil {
		return answer{}, err
	}
	return ok(memberDoc(m, x))
}

// imageMemberUpdate is for the member itself: it takes the image or not.
func (c *Cloud) imageMemberUpdate(r *request) (answer, error) {
	m, x, err := c.findMember(r, "modify_member")
	if err != nil {
		return answer{}, err
	}
	var in doc
	if json.Unmarshal(r.body, &in) != nil || !has(in, "status") {
		return answer{}, refuse(400, "Status not specified")
	}
	status := text(in["status"])
	switch {
	case x.project != r.token.project.id && !r.token.admin:
		return answer{}, refuse(403, "Not allowed to update members for image %s.", m.id)
	case !slices.Contains([]string{"pending", "accepted", "rejected"}, status):
		return answer{}, refuse(400, "Incorrect request")
	}
	x.status, x.updated = status, c.now()
	return ok(memberDoc(m, x))
}

func (c *Cloud) imageMemberRemove(r *request) (answer, error) {
	m, x, err := c.findMember(r, "delete_member")
	if err != nil {
		return answer{}, err
	}
	if !m.ownedBy(r.token) {
		return answer{}, refuse(403, "Not allowed to delete members for image %s.", m.id)
	}
	m.members = slices.DeleteFunc(m.members, func(y *imageMember) bool { return y == x })
	return noContent()
}
