package openstack

// The bodies that Nova takes, by the microversion that the caller speaks.

var (
	novaName     = schema{types: []string{"string"}, minLen: 1, maxLen: 255, format: "name"}
	novaUUID     = schema{types: []string{"string"}, format: "uuid"}
	novaText     = schema{types: []string{"string"}}
	novaShort    = schema{types: []string{"string", "null"}, minLen: 0, maxLen: 255}
	novaNote     = schema{types: []string{"string", "null"}, maxLen: 255, pattern: `^[^\x00-\x1f]*$`}
	novaMetadata = schema{types: []string{"object"}, keys: `^[a-zA-Z0-9-_:. ]{1,255}$`, each: &schema{types: []string{"string"}, maxLen: 255}}
	novaTag      = schema{types: []string{"string"}, minLen: 1, maxLen: 60, pattern: `^[^,/]*$`}
	novaTags     = schema{types: []string{"array"}, each: &novaTag, maxItems: 50}
	novaBool     = schema{types: []string{"boolean", "string"}, enum: []any{true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
		false, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"}}
	novaCount    = schema{types: []string{"integer", "string"}, pattern: `^[0-9]*$`, min: bound(1)}
	novaUserData = schema{types: []string{"string"}, format: "base64", maxLen: 65535}
	novaImage    = schema{any: []*schema{{types: []string{"string"}, format: "uuid"}, {types: []string{"string"}, pattern: "^$"}}}
	novaAddress4 = schema{types: []string{"string"}, format: "ipv4"}
	novaAddress6 = schema{types: []string{"string"}, format: "ipv6"}
	novaDisk     = schema{types: []string{"string"}, enum: []any{"AUTO", "MANUAL"}}
	novaHostname = schema{types: []string{"string"}, minLen: 2, maxLen: 63, pattern: `^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$`}
	novaFile     = schema{types: []string{"object"}, closed: true, props: []prop{{"path", novaText}, {"contents", schema{types: []string{"string"}, format: "base64"}}}}
	novaFiles    = schema{types: []string{"array"}, each: &novaFile}
	novaCerts    = schema{types: []string{"array", "null"}, each: &novaText, unique: true}
)

// wrapped is a body with one member.
func wrapped(name string, inner schema) *schema {
	return &schema{types: []string{"object"}, props: []prop{{name, inner}}, required: []string{name}, closed: true}
}

func object0(required []string, props ...prop) schema {
	return schema{types: []string{"object"}, props: props, required: required, closed: true}
}

func serverCreateSchema(version int) *schema {
	network := object0(nil, prop{"fixed_ip", schema{any: []*schema{&novaAddress4, &novaAddress6}}},
		prop{"port", schema{any: []*schema{{types: []string{"string"}, format: "uuid"}, {types: []string{"null"}}}}}, prop{"uuid", novaText})
	if version == 32 || version >= 42 {
		network = network.with(prop{"tag", novaTag})
	}
	if version >= 37 {
		network.props[2] = prop{"uuid", novaUUID}
	}
	device := object0(nil, prop{"boot_index", schema{types: []string{"integer", "string", "null"}, pattern: "^-?[0-9]+$"}},
		prop{"source_type", schema{types: []string{"string"}, enum: []any{"volume", "image", "snapshot", "blank"}}},
		prop{"destination_type", schema{types: []string{"string"}, enum: []any{"local", "volume"}}},
		prop{"uuid", schema{types: []string{"string"}, minLen: 1, maxLen: 255, pattern: "^[a-zA-Z0-9._-]*$"}},
		prop{"image_id", schema{types: []string{"string"}}}, prop{"volume_size", novaCount}, prop{"delete_on_termination", novaBool},
		prop{"device_name", schema{types: []string{"string"}, minLen: 1, maxLen: 255, pattern: "^[a-zA-Z0-9._/-]*$"}}, prop{"device_type", novaText},
		prop{"disk_bus", novaText}, prop{"guest_format", novaShort}, prop{"no_device", schema{}})
	if version == 32 || version >= 42 {
		device = device.with(prop{"tag", novaTag})
	}
	if version >= 67 {
		device = device.with(prop{"volume_type", schema{types: []string{"string", "null"}, maxLen: 255}})
	}
	groups := schema{types: []string{"array"}, each: &schema{types: []string{"object"}, props: []prop{{"name", schema{types: []string{"string"}, minLen: 1, maxLen: 255}}}}}
	networks := schema{types: []string{"array"}, each: &network}
	required := []string{"name", "flavorRef"}
	if version >= 37 {
		networks = schema{any: []*schema{{types: []string{"array"}, each: &network}, {types: []string{"string"}, enum: []any{"none", "auto"}}}}
		required = append(required, "networks")
	}
	s := object0(required, prop{"name", novaName}, prop{"imageRef", novaImage}, prop{"flavorRef", schema{types: []string{"string", "integer"}, minLen: 1}},
		prop{"adminPass", novaText}, prop{"metadata", novaMetadata}, prop{"networks", networks}, prop{"OS-DCF:diskConfig", novaDisk},
		prop{"accessIPv4", novaAddress4}, prop{"accessIPv6", novaAddress6}, prop{"availability_zone", schema{types: []string{"string"}, minLen: 1, maxLen: 255}},
		prop{"block_device_mapping", schema{types: []string{"array"}}}, prop{"block_device_mapping_v2", schema{types: []string{"array"}, each: &device}},
		prop{"config_drive", novaBool}, prop{"min_count", novaCount}, prop{"max_count", novaCount}, prop{"return_reservation_id", novaBool},
		prop{"security_groups", groups}, prop{"user_data", novaUserData}, prop{"key_name", schema{types: []string{"string"}, minLen: 1, maxLen: 255}})
	if version < 57 {
		s = s.with(prop{"personality", novaFiles})
	}
	for _, later := range []struct {
		from int
		prop
	}{{19, prop{"description", novaNote}}, {52, prop{"tags", novaTags}}, {63, prop{"trusted_image_certificates", novaCerts}},
		{74, prop{"host", novaText}}, {74, prop{"hypervisor_hostname", novaText}}, {90, prop{"hostname", novaHostname}}} {
		if version >= later.from {
			s = s.with(later.prop)
		}
	}
	whole := wrapped("server", s)
	hints := prop{"os:scheduler_hints", schema{types: []string{"object"}, props: []prop{{"group", novaUUID}}}}
	whole.props = append(whole.props, hints, prop{"OS-SCH-HNT:scheduler_hints", hints.schema})
	return whole
}

func serverUpdateSchema(version int) *schema {
	s := object0(nil, prop{"name", novaName}, prop{"OS-DCF:diskConfig", novaDisk}, prop{"accessIPv4", novaAddress4}, prop{"accessIPv6", novaAddress6})
	if version >= 19 {
		s = s.with(prop{"description", novaNote})
	}
	if version >= 90 {
		s = s.with(prop{"hostname", novaHostname})
	}
	return wrapped("server", s)
}

func rebuildSchema(version int) schema {
	s := object0([]string{"imageRef"}, prop{"name", novaName}, prop{"imageRef", novaUUID}, prop{"adminPass", novaText}, prop{"metadata", novaMetadata},
		prop{"preserve_ephemeral", novaBool}, prop{"OS-DCF:diskConfig", novaDisk}, prop{"accessIPv4", novaAddress4}, prop{"accessIPv6", novaAddress6})
	if version < 57 {
		s = s.with(prop{"personality", novaFiles})
	}
	for _, later := range []struct {
		from int
		prop
	}{{19, prop{"description", novaNote}}, {54, prop{"key_name", schema{types: []string{"string", "null"}, maxLen: 255}}},
		{57, prop{"user_data", schema{types: []string{"string", "null"}, format: "base64", maxLen: 65535}}},
		{63, prop{"trusted_image_certificates", novaCerts}}, {90, prop{"hostname", novaHostname}}} {
		if version >= later.from {
			s = s.with(later.prop)
		}
	}
	return s
}

// actionSchema is the schema of an action's body; nil takes anything.
func actionSchema(name string, version int) *schema {
	var s schema
	switch name {
	case "reboot":
		s = object0([]string{"type"}, prop{"type", schema{types: []string{"string"}, enum: []any{"HARD", "Hard", "hard", "SOFT", "Soft", "soft"}}})
	case "resize":
		s = object0([]string{"flavorRef"}, prop{"flavorRef", schema{types: []string{"string", "integer"}, minLen: 1}}, prop{"OS-DCF:diskConfig", novaDisk})
	case "rebuild":
		s = rebuildSchema(version)
	case "os-getConsoleOutput":
		s = object0(nil, prop{"length", schema{types: []string{"integer", "string", "null"}, pattern: "^-?[0-9]+$", min: bound(-1)}})
	case "os-resetState":
		s = object0([]string{"state"}, prop{"state", schema{types: []string{"string"}, enum: []any{"active", "error"}}})
	case "createImage":
		s = object0([]string{"name"}, prop{"name", novaName}, prop{"metadata", novaMetadata})
	default:
		return nil
	}
	return wrapped(name, s)
}

func interfaceSchema(version int) *schema {
	address := object0([]string{"ip_address"}, prop{"ip_address", schema{any: []*schema{&novaAddress4, &novaAddress6}}})
	s := object0(nil, prop{"net_id", novaUUID}, prop{"port_id", novaUUID}, prop{"fixed_ips", schema{types: []string{"array"}, each: &address, minItems: 1, maxItems: 1}})
	if version >= 49 {
		s = s.with(prop{"tag", novaTag})
	}
	whole := wrapped("interfaceAttachment", s)
	whole.required = nil
	return whole
}

func keypairSchema(version int) *schema {
	s := object0([]string{"name"}, prop{"name", schema{types: []string{"string"}, minLen: 1, maxLen: 255}}, prop{"public_key", novaText})
	if version >= 2 {
		s = s.with(prop{"type", schema{types: []string{"string"}, enum: []any{"ssh", "x509"}}})
	}
	if version >= 10 {
		s = s.with(prop{"user_id", novaText})
	}
	if version >= 92 {
		s.required = []string{"name", "public_key"}
	}
	return wrapped("keypair", s)
}

func groupSchema(version int) *schema {
	kinds := []any{"anti-affinity", "affinity"}
	if version >= 15 {
		kinds = append(kinds, "soft-anti-affinity", "soft-affinity")
	}
	if version < 64 {
		s := object0([]string{"name", "policies"}, prop{"name", novaName},
			prop{"policies", schema{types: []string{"array"}, each: &schema{types: []string{"string"}, enum: kinds}, minItems: 1, maxItems: 1}})
		return wrapped("server_group", s)
	}
	rules := object0(nil, prop{"max_server_per_host", schema{types: []string{"integer", "string"}, pattern: `^[0-9]*$`, min: bound(1)}})
	return wrapped("server_group", object0([]string{"name", "policy"}, prop{"name", novaName}, prop{"policy", schema{types: []string{"string"}, enum: kinds}}, prop{"rules", rules}))
}

func flavorSize(least int) schema {
	return schema{types: []string{"integer", "string"}, pattern: `^[0-9]+$`, min: bound(least)}
}

func flavorSchema(version int) *schema {
	id := schema{types: []string{"string", "number", "null"}, minLen: 1, maxLen: 255, pattern: `^(?! )[a-zA-Z0-9. _-]+(?<! )$`}
	s := object0([]string{"name", "ram", "vcpus", "disk"}, prop{"name", novaName}, prop{"id", id}, prop{"ram", flavorSize(1)}, prop{"vcpus", flavorSize(1)},
		prop{"disk", flavorSize(0)}, prop{"OS-FLV-EXT-DATA:ephemeral", flavorSize(0)}, prop{"swap", flavorSize(0)},
		prop{"rxtx_factor", schema{types: []string{"number", "string"}, pattern: `^[0-9]+(\.[0-9]+)?$`, above: true}}, prop{"os-flavor-access:is_public", novaBool})
	if version >= 55 {
		s = s.with(prop{"description", schema{types: []string{"string", "null"}, maxLen: 65535}})
	}
	return wrapped("flavor", s)
}

var (
	extraSpecValue = schema{types: []string{"string", "number"}, maxLen: 255}
	flavorAccess   = object0([]string{"tenant"}, prop{"tenant", schema{types: []string{"string"}, minLen: 1, maxLen: 255}})
)

func specsSchema() schema {
	return schema{types: []string{"object"}, keys: `^[a-zA-Z0-9-_:. ]{1,255}$`, each: &extraSpecValue}
}

// bodyAs decodes a body and checks it.
func (r *request) bodyAs(s *schema) (doc, error) {
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if err := s.check("", v); err != nil {
		return nil, err
	}
	d, _ := v.(doc)
	return d, nil
}
