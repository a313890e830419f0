package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// The microversions that calls are made with: for each the lowest that serves,
// so that an old cloud is enough and a new one changes nothing. An empty one is
// the service's base version. Neutron, Glance, Octavia and Swift have none;
// Keystone's is v3.
//
// Higher ones are avoided on purpose: from Nova's 2.47 a server's flavor has no
// id, from 2.90 the host name is a parameter of its own.
const (
	// ServerVersion is for creating, reading and changing servers.
	ServerVersion = "2.26"
	// KeypairVersion is for key pairs.
	KeypairVersion = ""
	// FlavorVersion is for reading flavors.
	FlavorVersion = ""
	// FlavorEnsureVersion is for making flavors and changing them.
	FlavorEnsureVersion = "2.61"
	// RootVolumeTypeVersion is for servers whose root volume has a type.
	RootVolumeTypeVersion = "2.67"
	// RebuildKeyVersion is for rebuilding a server with another key pair.
	RebuildKeyVersion = "2.54"
	// RebuildUserDataVersion is for rebuilding a server with other user data.
	RebuildUserDataVersion = "2.57"
	// SoftGroupVersion is for server groups that are kept where there is room.
	SoftGroupVersion = "2.15"
	// GroupRulesVersion is for server groups with max_server_per_host.
	GroupRulesVersion = "2.64"
	// HypervisorVersion is for hypervisors.
	HypervisorVersion = "2.53"
	// AttachmentTagVersion is for tagging a volume of a server.
	AttachmentTagVersion = "2.49"
	// AttachmentDeleteVersion is for deleting a volume with its server.
	AttachmentDeleteVersion = "2.79"
	// AttachmentShowTagVersion is for reading the tag of a server's volume.
	AttachmentShowTagVersion = "2.70"
	// AttachmentUpdateVersion is for changing whether a volume is deleted with its
	// server.
	AttachmentUpdateVersion = "2.85"
	// MultiattachVersion is for giving a server a volume of a type that lets several
	// have it.
	MultiattachVersion = "2.60"
	// VolumeGrowVersion is for growing a volume that servers have.
	VolumeGrowVersion = "3.42"
	// VolumeMessageVersion is for what Cinder says of a failure.
	VolumeMessageVersion = "3.5"
)

// A Use is a group of calls and the microversion that they need.
type Use struct {
	Service Service
	Calls   string // "servers"
	Version string
	Why     string // what the version brought
}

// Uses lists what needs which microversion. Each constant above is in it.
func Uses() []Use {
	return []Use{
		{Compute, "servers", ServerVersion, "the description, which holds the owner mark, came with 2.19, tags with 2.26"},
		{Compute, "key pairs", KeypairVersion, "the base version has all of it"},
		{Compute, "rebuilding servers with another key pair", RebuildKeyVersion, "it brought key_name in a rebuild"},
		{Compute, "rebuilding servers with other user data", RebuildUserDataVersion, "it brought user_data in a rebuild"},
		{Compute, "root volumes with a type", RootVolumeTypeVersion, "it brought volume_type in a create"},
		{Compute, "reading flavors", FlavorVersion, "the base version has all of it"},
		{Compute, "making flavors", FlavorEnsureVersion, "the description, which holds the owner mark, came with 2.55, extra specs in lists with 2.61"},
		{Compute, "server groups and availability zones", "", "the base version has all of it"},
		{Compute, "server groups with a soft policy", SoftGroupVersion, "it brought these policies"},
		{Compute, "server groups with max_server_per_host", GroupRulesVersion, "it brought rules"},
		{Compute, "hypervisors", HypervisorVersion, "ids that are unique, and pages; from 2.88 sizes are no longer in it"},
		{Compute, "tags of a server's volumes", AttachmentTagVersion, "they are given when a volume is attached"},
		{Compute, "volumes that are deleted with their server", AttachmentDeleteVersion, "it is said when a volume is attached"},
		{Compute, "comparing tags of a server's volumes", AttachmentShowTagVersion, "they are shown"},
		{Compute, "changing whether a volume is deleted with its server", AttachmentUpdateVersion, "it can be changed"},
		{Compute, "volumes that several servers have", MultiattachVersion, "they are refused before"},
		{BlockStorage, "volumes that grow while servers have them", VolumeGrowVersion, "growing is allowed then"},
		{BlockStorage, "reasons of failures", VolumeMessageVersion, "the messages of one resource can be asked for"},
	}
}

// base is the microversion that a service speaks without being asked; "" if it
// has none.
func (s Service) base() string {
	switch s {
	case Compute:
		return "2.1"
	case BlockStorage:
		return "3.0"
	}
	return ""
}

// A span is the microversions that a service speaks.
type span struct{ min, max string }

// A negotiation finds out once what a service speaks.
type negotiation struct {
	busy  chan struct{} // held while asking
	asked bool
	span  span // empty if the service doesn't say
}

// negotiate refuses a microversion that the service doesn't speak, before
// anything is sent that needs it. One that every service of the kind speaks
// isn't asked for.
func (c *Client) negotiate(ctx context.Context, s Service, version string) error {
	if version == "" || version == s.base() {
		return nil
	}
	n := c.negotiations[s]
	select {
	case n.busy <- struct{}{}:
		defer func() { <-n.busy }()
	case <-ctx.Done():
		return fault.FromContext(ctx)
	}
	if !n.asked {
		var err error
		if n.span, err = c.speaks(ctx, s); err != nil {
			return err
		}
		n.asked = true
	}
	if n.span.max == "" || !less(n.span.max, version) && !less(version, n.span.min) {
		return nil
	}
	what := "this call needs " + version
	for _, u := range Uses() {
		if u.Service == s && u.Version == version {
			what = fmt.Sprintf("%s need %s (%s)", u.Calls, version, u.Why)
			break
		}
	}
	return fault.Hinted(fault.Invalid, "the cloud is older than this needs; the module's page says what needs which version",
		"%s of cloud %s speaks the microversions %s to %s, and %s", title(s), c.entry.Name, n.span.min, n.span.max, what)
}

// speaks asks a service which microversions it speaks. A service that doesn't
// say, as behind a proxy that lets only calls through, speaks what it is asked
// to until it refuses.
func (c *Client) speaks(ctx context.Context, s Service) (span, error) {
	address, err := c.root(s)
	if err != nil {
		return span{}, err
	}
	a, err := c.send(ctx, Call{Service: s, Method: http.MethodGet}, address, []int{http.StatusOK, http.StatusMultipleChoices})
	switch fault.KindOf(err) {
	case "":
	case fault.NotFound, fault.Denied, fault.Invalid:
		return span{}, nil
	default:
		return span{}, fault.Wrap("asking for the microversions of", title(s), err)
	}
	var doc struct {
		Version  map[string]any   `json:"version"`
		Versions []map[string]any `json:"versions"`
	}
	if json.Unmarshal(a.Body, &doc) != nil {
		return span{}, nil
	}
	for _, v := range append(doc.Versions, doc.Version) {
		id, highest, lowest := str(v, "id"), str(v, "version"), str(v, "min_version")
		if strings.TrimPrefix(majorOf(id), "v") == strings.TrimPrefix(majorOf(s.versionPath()), "v") && highest != "" {
			return span{min: lowest, max: highest}, nil
		}
	}
	return span{}, nil
}

func str(obj map[string]any, key string) string {
	s, _ := obj[key].(string)
	return s
}

// less compares microversions: 2.9 is less than 2.19.
func less(a, b string) bool {
	amajor, aminor := numbers(a)
	bmajor, bminor := numbers(b)
	return amajor < bmajor || amajor == bmajor && aminor < bminor
}

func numbers(version string) (major, minor int) {
	a, b, _ := strings.Cut(version, ".")
	major, _ = strconv.Atoi(a)
	minor, _ = strconv.Atoi(b)
	return major, minor
}

// Highest returns the highest of microversions: what a call needs that asks for
// several things.
func Highest(versions ...string) string {
	highest := ""
	for _, v := range versions {
		if highest == "" || v != "" && less(highest, v) {
			highest = v
		}
	}
	return highest
}
