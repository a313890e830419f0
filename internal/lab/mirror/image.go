package mirror

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"path"
	"strings"
)

// signingKey returns what looks like the armoured public key of a package repository. Nothing in
// the lab is signed by it.
func signingKey(_, name string) ([]byte, error) {
	var body []byte
	seed := sha256.Sum256([]byte(name))
	for len(body) < 384 {
		body = append(body, seed[:]...)
		seed = sha256.Sum256(seed[:])
	}
	var out bytes.Buffer
	out.WriteString("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n")
	for encoded := base64.StdEncoding.EncodeToString(body); encoded != ""; {
		n := min(64, len(encoded))
		out.WriteString(encoded[:n] + "\n")
		encoded = encoded[n:]
	}
	out.WriteString("-----END PGP PUBLIC KEY BLOCK-----\n")
	return out.Bytes(), nil
}

// imageSize is the length of an image's stand-in: enough for a download that is broken off and
// resumed, little enough for a lab's memory.
const imageSize = 96 << 10

// image returns a disk image: the header of an empty 3 GiB qcow2, or of a raw disk with an empty
// partition table, and bytes that follow from the name.
func image(_, name string) ([]byte, error) {
	content := make([]byte, imageSize)
	seed := sha256.Sum256([]byte(name))
	for i := 0; i < len(content); i += len(seed) {
		copy(content[i:], seed[:])
		seed = sha256.Sum256(seed[:])
	}
	if strings.EqualFold(path.Ext(name), ".raw") {
		clear(content[:512])
		content[510], content[511] = 0x55, 0xaa
		return content, nil
	}
	header := content[:104]
	clear(header)
	copy(header, "QFI\xfb")
	binary.BigEndian.PutUint32(header[4:], 3)          // version
	binary.BigEndian.PutUint32(header[20:], 16)        // clusters of 64 KiB
	binary.BigEndian.PutUint64(header[24:], 3<<30)     // virtual size
	binary.BigEndian.PutUint32(header[36:], 6)         // level 1 entries
	binary.BigEndian.PutUint64(header[40:], 3*(1<<16)) // where they are
	binary.BigEndian.PutUint64(header[48:], 1<<16)     // reference count table
	binary.BigEndian.PutUint32(header[56:], 1)         // its clusters
	binary.BigEndian.PutUint32(header[96:], 4)         // 16-bit reference counts
	binary.BigEndian.PutUint32(header[100:], 104)      // header length
	return content, nil
}
