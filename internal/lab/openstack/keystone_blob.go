package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// A blob is what /v3/credentials keeps for a user. Those of type ec2 hold an access key and its secret, let a user
// into S3, and are shown by the older EC2 calls too.
type blob struct {
	id, user, project, kind string
	text                    string // JSON, for ec2
}

func blobRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/credentials", handle: (*Cloud).blobList},
		{method: "POST", pattern: "/v3/credentials", handle: (*Cloud).blobCreate},
		{method: "GET", pattern: "/v3/credentials/{id}", handle: (*Cloud).blobShow},
		{method: "PATCH", pattern: "/v3/credentials/{id}", handle: (*Cloud).blobUpdate},
		{method: "DELETE", pattern: "/v3/credentials/{id}", handle: (*Cloud).blobDelete},
		{method: "GET", pattern: "/v3/users/{user}/credentials/OS-EC2", handle: (*Cloud).ec2List},
		{method: "POST", pattern: "/v3/users/{user}/credentials/OS-EC2", handle: (*Cloud).ec2Create},
		{method: "GET", pattern: "/v3/users/{user}/credentials/OS-EC2/{access}", handle: (*Cloud).ec2Show},
		{method: "DELETE", pattern: "/v3/users/{user}/credentials/OS-EC2/{access}", handle: (*Cloud).ec2Delete},
	}
}

// keyID is the id of the credential with an access key.
func keyID(access string) string {
	sum := sha256.Sum256([]byte(access))
	return hex.EncodeToString(sum[:])
}

func (b *blob) content() doc {
	var d doc
	if json.Unmarshal([]byte(b.text), &d) != nil {
		return nil
	}
	return d
}

func (c *Cloud) blobDoc(r *request, b *blob) doc {
	d := doc{"id": b.id, "user_id": b.user, "project_id": nil, "type": b.kind, "blob": b.text, "links": r.self("credentials/" + b.id)}
	if b.project != "" {
		d["project_id"] = b.project
	}
	return d
}

func (c *Cloud) blobList(r *request) (answer, error) {
	var out []any
	for _, id := range sortedKeys(c.identity.blobs) {
		b := c.identity.blobs[id]
		if (r.token.admin || b.user == r.token.user.id) && r.picks(map[string]string{"user_id": b.user, "type": b.kind}) && c.shown(id) {
			out = append(out, c.blobDoc(r, b))
		}
	}
	return r.collection("credentials", out)
}

func (c *Cloud) blobCreate(r *request) (answer, error) {
	d, err := r.object("credential")
	if err != nil {
		return answer{}, err
	}
	b := &blob{user: str(d, "user_id"), project: str(d, "project_id"), kind: str(d, "type"), text: str(d, "blob")}
	if b.user != r.token.user.id && !r.token.admin {
		return answer{}, forbidden(r, "identity:create_credential")
	}
	if b.user == "" || b.kind == "" || !has(d, "blob") || b.kind == "ec2" && b.project == "" {
		return answer{}, refuse(400, "%v is not valid under any of the given schemas", d)
	}
	b.id = c.ids.hex()
	if strings.EqualFold(b.kind, "ec2") {
		content := b.content()
		switch {
		case content == nil:
			return answer{}, refuse(400, "Invalid blob in credential")
		case len(content) == 0:
			return answer{}, missing("blob", "credential")
		case content["access"] == nil:
			return answer{}, missing("access", "credential")
		}
		if r.token.credential != nil { // what is made by a credential is bound to it
			content["app_cred_id"] = r.token.credential.id
			text, err := json.Marshal(content)
			if err != nil {
				return answer{}, err
			}
			b.text = string(text)
		}
		b.id = keyID(str(content, "access"))
	}
	if c.identity.blobs[b.id] != nil {
		return answer{}, refuse(409, "Conflict occurred attempting to store credential - Duplicate entry found with ID %s.", b.id)
	}
	c.identity.blobs[b.id] = b
	c.conceal(r, "credential", b.id)
	return created(doc{"credential": c.blobDoc(r, b)})
}

func (c *Cloud) foundBlob(r *request, action string) (*blob, error) {
	b := c.identity.blobs[r.arg("id")]
	if !r.token.admin && (b == nil || b.user != r.token.user.id) {
		return nil, forbidden(r, "identity:"+action)
	}
	if b == nil {
		return nil, refuse(404, "Could not find credential: %s.", r.arg("id"))
	}
	return b, nil
}

func (c *Cloud) blobShow(r *request) (answer, error) {
	b, err := c.foundBlob(r, "get_credential")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"credential": c.blobDoc(r, b)})
}

func (c *Cloud) blobUpdate(r *request) (answer, error) {
	b, err := c.foundBlob(r, "update_credential")
	if err != nil {
		return answer{}, err
	}
	d, err := r.object("credential")
	if err != nil {
		return answer{}, err
	}
	if has(d, "blob") {
		now := &blob{text: str(d, "blob")}
		if b.kind == "ec2" {
			for _, key := range []string{"trust_id", "app_cred_id", "access_token_id", "access_id"} {
				if now.content()[key] != b.content()[key] {
					return answer{}, refuse(400, "%s can not be updated for credential", key)
				}
			}
		}
		b.text = now.text
	}
	return ok(doc{"credential": c.blobDoc(r, b)})
}

func (c *Cloud) blobDelete(r *request) (answer, error) {
	b, err := c.foundBlob(r, "delete_credential")
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.blobs, b.id)
	return noContent()
}

func (c *Cloud) ec2Doc(r *request, b *blob) doc {
	content := b.content()
	return doc{"user_id": b.user, "tenant_id": b.project, "access": content["access"], "secret": content["secret"], "trust_id": nil,
		"links": r.self("users/" + b.user + "/credentials/OS-EC2/" + str(content, "access"))}
}

func (c *Cloud) ec2User(r *request, action string) (*user, error) {
	if r.arg("user") != r.token.user.id && !r.token.admin {
		return nil, forbidden(r, "identity:"+action)
	}
	u := c.identity.users[r.arg("user")]
	if u == nil {
		return nil, refuse(404, "Could not find user: %s.", r.arg("user"))
	}
	return u, nil
}

func (c *Cloud) ec2List(r *request) (answer, error) {
	u, err := c.ec2User(r, "ec2_list_credentials")
	if err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.blobs) {
		if b := c.identity.blobs[id]; b.user == u.id && b.kind == "ec2" && c.shown(id) {
			out = append(out, c.ec2Doc(r, b))
		}
	}
	return r.collection("credentials", out)
}

func (c *Cloud) ec2Create(r *request) (answer, error) {
	u, err := c.ec2User(r, "ec2_create_credential")
	if err != nil {
		return answer{}, err
	}
	whole, err := r.json()
	if err != nil {
		return answer{}, err
	}
	p := c.identity.projects[str(whole, "tenant_id")]
	if p == nil {
		return answer{}, refuse(404, "Could not find project: %s.", str(whole, "tenant_id"))
	}
	access := c.ids.hex()
	text, err := json.Marshal(doc{"access": access, "secret": newSecret()[:32], "trust_id": nil})
	if err != nil {
		return answer{}, err
	}
	b := &blob{id: keyID(access), user: u.id, project: p.id, kind: "ec2", text: string(text)}
	c.identity.blobs[b.id] = b
	c.conceal(r, "credential", b.id)
	return created(doc{"credential": c.ec2Doc(r, b)})
}

func (c *Cloud) foundKey(r *request, action string) (*blob, error) {
	if _, err := c.ec2User(r, action); err != nil {
		return nil, err
	}
	id := keyID(r.arg("access"))
	b := c.identity.blobs[id]
	if b == nil || b.kind != "ec2" {
		return nil, refuse(404, "Could not find credential: %s.", id)
	}
	return b, nil
}

func (c *Cloud) ec2Show(r *request) (answer, error) {
	b, err := c.foundKey(r, "ec2_get_credential")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"credential": c.ec2Doc(r, b)})
}

func (c *Cloud) ec2Delete(r *request) (answer, error) {
	b, err := c.foundKey(r, "ec2_delete_credential")
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.blobs, b.id)
	return noContent()
}
