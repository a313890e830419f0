package secret

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// SOPSFile reads values in files that SOPS encrypted to age recipients,
// relative to dir. The argument is PATH#KEY, where the key names a value by the
// keys and indexes that lead to it, "db.users.0.password"; without #KEY it is
// what a file in the binary form holds, or all of a YAML file. The form is told
// by the name: .yaml, .yml, .json, .env, and binary for others. Nothing of a
// file is returned unless its MAC is right.
func SOPSFile(dir string, box *Box) Reader {
	return ReaderFunc(func(_ context.Context, arg string) ([]byte, error) {
		path, key, _ := strings.Cut(arg, "#")
		path = within(dir, path)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.NotFound, "there is no file %s", path)
		}
		if err != nil {
			return nil, fault.New(fault.Denied, "%v", err)
		}
		plain, err := readSOPS(data, filepath.Ext(path), key, box)
		return plain, fault.Wrap("decrypting", path, err)
	})
}

// readSOPS returns the value called key of a file of the given extension.
func readSOPS(data []byte, ext, key string, box *Box) ([]byte, error) {
	var f sopsFile
	var err error
	switch ext {
	case ".yaml", ".yml", ".json":
		err = f.parse(data)
	case ".env":
		err = f.parseEnv(data)
	case ".ini":
		err = fault.Hinted(fault.Invalid, "use YAML, JSON, .env or a binary file", "INI files that SOPS encrypted aren't read")
	default:
		err = f.parse(data)
		if key == "" {
			key = "data"
		}
	}
	if err != nil {
		return nil, err
	}
	if err := f.decrypt(box); err != nil {
		return nil, err
	}
	if key != "" {
		return f.value(key)
	}
	if ext != ".yaml" && ext != ".yml" || len(f.docs) != 1 {
		return nil, fault.Hinted(fault.Invalid, "write PATH#KEY", "which value of the file? It has %s", strings.Join(keysOf(f.docs[0]), ", "))
	}
	out, err := yaml.Marshal(f.docs[0])
	if err != nil {
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	return out, nil
}

// A sopsFile is a file as SOPS writes it: documents of values, and how they
// were encrypted.
type sopsFile struct {
	docs []*yaml.Node // mappings, without what SOPS added
	meta sopsMeta
	open map[*yaml.Node]bool // the values that weren't encrypted
}

type sopsMeta struct {
	Age []struct {
		Enc string `yaml:"enc"`
	} `yaml:"age"`
	KeyGroups     []any  `yaml:"key_groups"`
	LastModified  string `yaml:"lastmodified"`
	MAC           string `yaml:"mac"`
	OnlyEncrypted bool   `yaml:"mac_only_encrypted"`
}

const sopsKey = "sops"

// parse reads YAML, and JSON, which is YAML.
func (f *sopsFile) parse(data []byte) error {
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.New(fault.Invalid, "%v", err)
		}
		top := doc.Content[0]
		if top.Kind != yaml.MappingNode {
			return notSOPS()
		}
		for i := 0; i < len(top.Content); i += 2 {
			if top.Content[i].Value != sopsKey {
				continue
			}
			if len(f.docs) == 0 {
				if err := top.Content[i+1].Decode(&f.meta); err != nil {
					return fault.New(fault.Invalid, "%v", err)
				}
			}
			top.Content = slices.Delete(top.Content, i, i+2)
			break
		}
		f.docs = append(f.docs, top)
	}
	if len(f.docs) == 0 || f.meta.MAC == "" {
		return notSOPS()
	}
	return nil
}

var envAge = regexp.MustCompile(`^sops_age__list_\d+__map_enc$`)

// parseEnv reads lines of NAME=VALUE, where \n stands for a line's end.
func (f *sopsFile) parseEnv(data []byte) error {
	top := &yaml.Node{Kind: yaml.MappingNode}
	for line := range strings.SplitSeq(string(data), "\n") {
		name, value, ok := strings.Cut(line, "=")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		value = strings.ReplaceAll(value, `\n`, "\n")
		switch {
		case envAge.MatchString(name):
			f.meta.Age = append(f.meta.Age, struct {
				Enc string `yaml:"enc"`
			}{value})
		case name == "sops_mac":
			f.meta.MAC = value
		case name == "sops_lastmodified":
			f.meta.LastModified = value
		case name == "sops_mac_only_encrypted":
			f.meta.OnlyEncrypted = value == "true"
		case strings.HasPrefix(name, "sops_"):
		default:
			top.Content = append(top.Content, text(name), text(value))
		}
	}
	f.docs = []*yaml.Node{top}
	if f.meta.MAC == "" {
		return notSOPS()
	}
	return nil
}

func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}

func notSOPS() error {
	return fault.Hinted(fault.Invalid, "encrypt it: sops encrypt --age age1... --in-place FILE", "it isn't encrypted with SOPS")
}

// macOnlyEncrypted is what the digest begins with where it covers the encrypted
// values only. The format fixes it.
var macOnlyEncrypted, _ = hex.DecodeString("8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69")

// decrypt decrypts all values in place, and checks the MAC over them.
func (f *sopsFile) decrypt(box *Box) error {
	key, err := f.dataKey(box)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return fault.New(fault.Invalid, "the file's data key has %d bytes", len(key))
	}
	f.open = make(map[*yaml.Node]bool)
	digest := sha512.New()
	if f.meta.OnlyEncrypted {
		digest.Write(macOnlyEncrypted)
	}
	for _, doc := range f.docs {
		if err := eachValue(doc, nil, 0, func(n *yaml.Node, path []string) error {
			n.HeadComment, n.LineComment, n.FootComment = "", "", ""
			plain, kind, err := openValue(block, n.Value, strings.Join(path, ":")+":")
			if err != nil {
				return fault.New(fault.Invalid, "the value %s was changed or isn't whole: %v", strings.Join(path, "."), err)
			}
			if kind != "" {
				*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!" + kind, Value: plain}
				if kind == "bool" {
					n.Value = strings.ToLower(plain)
				}
			} else if plain, err = plainText(n); err != nil {
				return err
			} else {
				f.open[n] = true
			}
			if kind != "" || !f.meta.OnlyEncrypted {
				io.WriteString(digest, plain)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	when, err := time.Parse(time.RFC3339, f.meta.LastModified)
	if err != nil {
		return fault.New(fault.Invalid, "sops.lastmodified is no time")
	}
	mac, kind, err := openValue(block, f.meta.MAC, when.Format(time.RFC3339))
	if err != nil || kind == "" {
		return fault.New(fault.Untrusted, "its MAC was changed or isn't whole")
	}
	if !hmac.Equal([]byte(mac), []byte(fmt.Sprintf("%X", digest.Sum(nil)))) {
		return fault.Hinted(fault.Untrusted, "look at who changed it; sops wrote another text", "its MAC is wrong: it was changed without SOPS")
	}
	return nil
}

// dataKey decrypts the key that the values are encrypted with.
func (f *sopsFile) dataKey(box *Box) ([]byte, error) {
	if len(f.meta.KeyGroups) > 1 {
		return nil, fault.Hinted(fault.Invalid, "encrypt it to age recipients without key groups", "its key is split among several key groups")
	}
	if len(f.meta.Age) == 0 {
		return nil, fault.Hinted(fault.Invalid, "encrypt it to the site's age recipient: sops rotate --add-age age1... --in-place FILE", "it is encrypted to no age recipient")
	}
	var last error
	for _, a := range f.meta.Age {
		key, err := box.Decrypt([]byte(a.Enc))
		if err == nil {
			return key, nil
		}
		if last = err; fault.KindOf(err) != fault.Denied {
			return nil, err
		}
	}
	return nil, last
}

var encrypted = regexp.MustCompile(`^ENC\[AES256_GCM,data:([^,]*),iv:([^,]+),tag:([^,]+),type:(\w+)\]$`)

// openValue decrypts one value, if it is encrypted, and returns its type: that
// of YAML's tags.
func openValue(block cipher.Block, s, about string) (plain, kind string, err error) {
	m := encrypted.FindStringSubmatch(s)
	if m == nil {
		return "", "", nil
	}
	var parts [3][]byte
	for i := range parts {
		if parts[i], err = base64.StdEncoding.DecodeString(m[i+1]); err != nil {
			return "", "", err
		}
	}
	if len(parts[1]) == 0 || len(parts[2]) != 16 {
		return "", "", errors.New("it is no AES-GCM text")
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(parts[1]))
	if err != nil {
		return "", "", err
	}
	out, err := gcm.Open(nil, parts[1], append(parts[0], parts[2]...), []byte(about))
	if err != nil {
		return "", "", err
	}
	switch plain, kind = string(out), m[4]; kind {
	case "int", "float":
	case "bool": // older versions wrote it in lower case
		plain = "False"
		if strings.EqualFold(string(out), "true") {
			plain = "True"
		}
	case "time":
		kind = "timestamp"
	default:
		kind = "str"
	}
	return plain, kind, nil
}
