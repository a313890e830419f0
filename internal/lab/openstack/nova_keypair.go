package openstack

import (
	"crypto/ed25519"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

type keypair struct {
	name, kind, publicKey, fingerprint string
	created                            time.Time
	number                             int
}

func (k *keypair) doc(r *request, userID string, whole bool) doc {
	d := doc{"name": k.name, "public_key": k.publicKey, "fingerprint": k.fingerprint}
	if r.version >= 2 {
		d["type"] = k.kind
	}
	if whole {
		d["user_id"], d["id"], d["created_at"] = userID, k.number, isoOrNil(k.created)
		d["deleted"], d["deleted_at"], d["updated_at"] = false, nil, nil
	}
	return d
}

// keyOwner is the user whose keys are meant: from 2.10 an admin may name another.
func (r *request) keyOwner(asked string) (string, error) {
	if asked == "" || r.version < 10 || asked == r.token.user.id {
		return r.token.user.id, nil
	}
	if !r.token.admin {
		return "", forbidden(r, "os_compute_api:os-keypairs:index")
	}
	return asked, nil
}

func (c *Cloud) keypairList(r *request) (answer, error) {
	owner, err := r.keyOwner(r.query.Get("user_id"))
	if err != nil {
		return answer{}, err
	}
	all := c.compute.keypairs[owner]
	var names []string
	for _, name := range sortedKeys(all) {
		if c.shown("keypair " + owner + " " + name) {
			names = append(names, name)
		}
	}
	from, to := 0, len(names)
	var next []any
	if r.version >= 35 {
		if from, to, next, err = r.page("os-keypairs", names, true); err != nil {
			return answer{}, err
		}
	}
	out := []any{}
	for _, name := range names[from:to] {
		out = append(out, doc{"keypair": all[name].doc(r, owner, false)})
	}
	d := doc{"keypairs": out}
	if next != nil {
		d["keypairs_links"] = next
	}
	return ok(d)
}

var (
	keyName    = regexp.MustCompile(`^[\w -]{1,255}$`)
	newKeyName = regexp.MustCompile(`^[\w@. -]{1,255}$`) // from 2.92
)

func (c *Cloud) keypairCreate(r *request) (answer, error) {
	whole, err := r.bodyAs(keypairSchema(r.version))
	if err != nil {
		return answer{}, err
	}
	in := object(whole, "keypair")
	owner, err := r.keyOwner(str(in, "user_id"))
	if err != nil {
		return answer{}, err
	}
	name := strings.TrimSpace(str(in, "name"))
	pattern, extra := keyName, ""
	if r.version >= 92 {
		pattern, extra = newKeyName, "@._"
	}
	if !pattern.MatchString(name) {
		return answer{}, refuse(400, "An invalid 'name' value was provided. The name must be: Only expected characters: [%s_- 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ]", extra)
	}
	kind := "ssh"
	if k := str(in, "type"); k != "" {
		kind = k
	}
	if c.compute.keypairs[owner][name] != nil {
		return answer{}, refuse(409, "Key pair '%s' already exists.", name)
	}
	if limit := c.computeLimit(r.token.project.id, "key_pairs"); limit >= 0 && len(c.compute.keypairs[owner]) >= limit {
		return answer{}, refuse(403, "Quota exceeded, too many key pairs.")
	}
	number := 1
	for _, k := range c.compute.keypairs[owner] {
		number = max(number, k.number+1)
	}
	k := &keypair{name: name, kind: kind, publicKey: strings.TrimSpace(str(in, "public_key")), created: c.now(), number: number}
	private := ""
	if !has(in, "public_key") {
		if k.publicKey, private, err = generateKey(); err != nil {
			return answer{}, err
		}
	}
	if k.fingerprint, err = keyFingerprint(k); err != nil {
		return answer{}, err
	}
	if c.compute.keypairs[owner] == nil {
		c.compute.keypairs[owner] = map[string]*keypair{}
	}
	c.compute.keypairs[owner][name] = k
	c.conceal(r, "keypair", "keypair "+owner+" "+name)
	d := k.doc(r, owner, false)
	d["user_id"] = owner
	if private != "" {
		d["private_key"] = private
	}
	if r.version >= 2 {
		return created(doc{"keypair": d})
	}
	return ok(doc{"keypair": d})
}

// generateKey makes a key pair, the private half as OpenSSH keeps it.
func generateKey() (public, private string, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("generating a key pair: %w", err)
	}
	sshPub, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", "", fmt.Errorf("encoding a public key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "Generated-by-Nova")
	if err != nil {
		return "", "", fmt.Errorf("encoding a private key: %w", err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshPub))) + " Generated-by-Nova"
	return line, string(pem.EncodeToMemory(block)), nil
}

// keyFingerprint is Nova's: MD5 of an SSH key, SHA-1 of a certificate.
func keyFingerprint(k *keypair) (string, error) {
	if k.kind == "x509" {
		block, _ := pem.Decode([]byte(k.publicKey))
		if block == nil {
			return "", refuse(400, "Keypair data is invalid: failed to generate X509 fingerprint. Error message: Unable to load PEM file. "+
				"See https://cryptography.io/en/latest/faq/#why-can-t-i-import-my-pem-file for more details. MalformedFraming")
		}
		sum := sha1.Sum(block.Bytes)
		return fingerprint(sum[:]), nil
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(k.publicKey))
	if err != nil {
		return "", refuse(400, "Keypair data is invalid: failed to generate fingerprint")
	}
	sum := md5.Sum(parsed.Marshal())
	return fingerprint(sum[:]), nil
}

func fingerprint(sum []byte) string {
	h := hex.EncodeToString(sum)
	var parts []string
	for i := 0; i < len(h); i += 2 {
		parts = append(parts, h[i:i+2])
	}
	return strings.Join(parts, ":")
}

func (c *Cloud) findKeypair(r *request) (string, *keypair, error) {
	owner, err := r.keyOwner(r.query.Get("user_id"))
	if err != nil {
		return "", nil, err
	}
	k := c.compute.keypairs[owner][r.arg("name")]
	if k == nil {
		return "", nil, refuse(404, "Keypair %s not found for user %s", r.arg("name"), owner)
	}
	return owner, k, nil
}

func (c *Cloud) keypairShow(r *request) (answer, error) {
	owner, k, err := c.findKeypair(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"keypair": k.doc(r, owner, true)})
}

func (c *Cloud) keypairDelete(r *request) (answer, error) {
	owner, k, err := c.findKeypair(r)
	if err != nil {
		return answer{}, err
	}
	delete(c.compute.keypairs[owner], k.name)
	if r.version >= 2 {
		return noContent()
	}
	return answer{status: 202}, nil
}
