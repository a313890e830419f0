package openstack

// The microversions of Nova that calls are made with: for each the lowest that
// serves, so that an old cloud is enough and a new one changes nothing. A
// cloud that doesn't offer one refuses the call with 406 and says which it
// has. Neutron and Glance have none; Keystone's is v3.
//
// Higher ones are avoided on purpose: from 2.47 a server's flavor has no id,
// from 2.90 the host name is a parameter of its own.
const (
	// ServerVersion is for creating, reading and changing servers: 2.19 brought
	// the description, which holds the owner mark.
	ServerVersion = "2.19"
	// KeypairVersion is for key pairs: 2.1 has all that is needed.
	KeypairVersion = ""
	// FlavorVersion is for flavors: 2.1 has all that is needed.
	FlavorVersion = ""
)
