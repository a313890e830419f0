package openstack

import (
	"strings"
	"unicode/utf8"
)

// The bodies that Cinder takes, by the microversion that the caller speaks.

var (
	cinderText  = schema{types: []string{"string", "null"}}
	cinderShort = schema{types: []string{"string", "null"}, maxLen: 255}
	cinderUUID  = schema{any: []*schema{{types: []string{"null"}}, {types: []string{"string"}, format: "uuid"}}}
	cinderSize  = schema{types: []string{"integer", "string"}, pattern: "^[0-9]+$", min: bound(1)}
	cinderBool  = schema{types: []string{"boolean", "string"}, enum: []any{true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "y", "t",
		false, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no", "n", "f"}}
	cinderMetadata = schema{types: []string{"object"}, keys: "^[a-zA-Z0-9-_:. /]{1,255}$", each: &schema{types: []string{"string"}, maxLen: 255}}
)

// orNull is a schema that takes null too.
func (s schema) orNull() schema {
	s.types = append(append([]string(nil), s.types...), "null")
	return s
}

func volumeSchema(version int) *schema {
	s := object0(nil, prop{"name", cinderText}, prop{"description", cinderText}, prop{"display_name", cinderText}, prop{"display_description", cinderText},
		prop{"volume_type", cinderShort}, prop{"metadata", cinderMetadata.orNull()}, prop{"snapshot_id", cinderUUID}, prop{"source_volid", cinderUUID},
		prop{"consistencygroup_id", cinderUUID}, prop{"size", cinderSize.orNull()}, prop{"availability_zone", cinderShort}, prop{"multiattach", cinderBool.orNull()},
		prop{"image_id", cinderShort}, prop{"imageRef", cinderShort}, prop{"group_id", cinderShort}, prop{"backup_id", cinderUUID})
	s.closed = version >= 53
	whole := wrapped("volume", s)
	whole.props = append(whole.props, prop{"OS-SCH-HNT:scheduler_hints", schema{types: []string{"object", "null"}}})
	return whole
}

func volumeUpdateSchema(version int) *schema {
	names := []string{"name", "description", "display_name", "display_description", "metadata"}
	s := object0(nil)
	for _, name := range names[:4] {
		s = s.with(prop{name, cinderText})
	}
	s = s.with(prop{"metadata", cinderMetadata})
	if version >= 53 {
		s.any = eitherOf(names)
	}
	return wrapped("volume", s)
}

// eitherOf is met by an object that has one of the members.
func eitherOf(names []string) []*schema {
	var out []*schema
	for _, name := range names {
		out = append(out, &schema{required: []string{name}})
	}
	return out
}

func snapshotSchema() *schema {
	return wrapped("snapshot", object0([]string{"volume_id"}, prop{"name", cinderShort}, prop{"display_name", cinderShort}, prop{"description", cinderShort},
		prop{"volume_id", cinderUUID}, prop{"force", cinderBool}, prop{"metadata", cinderMetadata.orNull()}))
}

func snapshotUpdateSchema() *schema {
	names := []string{"name", "description", "display_name", "display_description"}
	s := object0(nil)
	for _, name := range names {
		s = s.with(prop{name, cinderShort})
	}
	s.any = eitherOf(names)
	return wrapped("snapshot", s)
}

// volumeActionSchema is the schema of an action's body; nil takes anything.
func volumeActionSchema(name string) *schema {
	one := func(key string, s schema, more ...prop) *schema {
		return wrapped(name, object0([]string{key}, append([]prop{{key, s}}, more...)...))
	}
	switch name {
	case "os-extend":
		return one("new_size", cinderSize)
	case "os-retype":
		return one("new_type", schema{types: []string{"string"}}, prop{"migration_policy", schema{types: []string{"string", "null"}, enum: []any{"on-demand", "never"}}})
	case "os-set_bootable":
		return one("bootable", cinderBool)
	case "os-update_readonly_flag":
		return one("readonly", cinderBool)
	}
	return nil
}

// checkTitles refuses names and descriptions that are too long, the white space around them not counted.
func checkTitles(in doc) error {
	for _, k := range []string{"name", "description", "display_name", "display_description"} {
		if n := utf8.RuneCountInString(strings.TrimSpace(text(in[k]))); n > 255 {
			return refuse(400, "Invalid input received: %s has %d characters, more than 255.", k, n)
		}
	}
	return nil
}

// cinderBody decodes a body with the member wrap, and checks it.
func (r *request) cinderBody(s *schema, wrap string) (doc, error) {
	whole, err := r.bodyAs(s)
	if err != nil {
		return nil, err
	}
	return object(whole, wrap), nil
}
