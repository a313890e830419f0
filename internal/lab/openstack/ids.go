package openstack

import (
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// idSource makes the ids of resources. It isn't safe for concurrent use.
type idSource struct{ rand *rand.Rand }

func newIDSource(seed uint64) idSource {
	if seed == 0 {
		var b [8]byte
		crand.Read(b[:]) // never fails
		seed = binary.LittleEndian.Uint64(b[:])
	}
	return idSource{rand.New(rand.NewPCG(seed, seed))}
}

func (s idSource) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rand.Uint32())
	}
	return b
}

// uuid is an id with dashes, as all services but Keystone have them.
func (s idSource) uuid() string {
	b := s.bytes(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// hex is an id as Keystone makes them.
func (s idSource) hex() string { return hex.EncodeToString(s.bytes(16)) }

// mac is an address in the range that Neutron hands out.
func (s idSource) mac() string {
	b := s.bytes(3)
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", b[0], b[1], b[2])
}

// newToken is a secret that has the look of a Fernet token.
func newToken() string {
	b := make([]byte, 96)
	crand.Read(b) // never fails
	return "gAAAAA" + base64.RawURLEncoding.EncodeToString(b)
}

// newSecret is a random text for generated passwords and credentials.
func newSecret() string {
	b := make([]byte, 48)
	crand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func newRequestID() string {
	var b [16]byte
	crand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("req-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
