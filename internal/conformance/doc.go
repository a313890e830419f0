// Package conformance has no code, only tests: one suite for the module
// openstack, run against two clouds, the simulator of internal/lab/openstack
// and a real control plane. Where they differ the simulator is wrong.
//
// testdata/*.calls holds calls with the answers that a real Octavia gave, which the
// simulator has to give too.
//
// testdata/*.star holds the scenarios, a file for each noun or subject. Each
// file gets a project of its own in each cloud, and these names besides the
// modules:
//
//	steady(fn)      calls fn in a plan (of the simulator), calls it, and calls it
//	                again, each time as another run would: the second time nothing
//	                may be written and the result is the same. Returns the result.
//	changed(fn)     the same, and the first call has to write.
//	plan(fn)        calls fn in a plan; returns ([kind and target of each change], result).
//	writes(fn)      calls fn; returns the calls that were meant to change something,
//	                with ID in the place of ids: "PUT /network/v2.0/networks/ID".
//	reads(fn)       the same of all other calls, logins excepted.
//	refusal(fn)     the kind, text and hint of the error that fn fails with, as a struct.
//	fault(...)      makes calls go wrong, see openstack.Fault of internal/lab/openstack.
//	clear_faults()  ends that.
//	file(content)   a file to upload, as artifact.fetch returns it.
//	secret(text)    text as a secret.
//	expire_tokens() makes every token so far invalid.
//	unique(name)    a name that no other project's scenario uses, for what all projects share.
//	target          "simulator" or "real"
//
// A fn takes the cloud: lambda cloud: cloud.network.ensure("a"). It is the one of
// the scenario's project; steady(fn, cloud = "admin") is the administrator's.
package conformance
