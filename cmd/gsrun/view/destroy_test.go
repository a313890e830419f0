package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func owned(kind, name, id string) effect.Owned {
	return effect.Owned{Target: effect.Target{Scope: "openstack/lab", Kind: kind, Name: name}, ID: id, Mark: "gsrun:x/gateway/" + name, Credential: kind == "keypair"}
}

func aDestroy() DestroyData {
	of := owned("network", "x-mgmt", "n-1").Target
	return DestroyData{
		Recipe: "gateway", Site: "x",
		Going: []effect.Owned{owned("server", "x-gw\x1b[2J", "s-1"), owned("network", "x-mgmt", "n-1"), owned("keypair", "x-operator", "x-operator")},
		With:  []Along{{What: "ssh/gw", Of: "openstack/lab/server/x-gw", N: 6}},
		Left:  []Leftover{{What: "git/x", Why: "what was committed stays", Hint: "remove it by a commit"}},
		Others: []effect.Other{
			{Target: effect.Target{Scope: "openstack/lab", Kind: "port", Name: "p-1"}, Text: "port db (p-1)", Of: of, Hint: "delete it first"},
			{Target: effect.Target{Scope: "kube/seed", Kind: "clusters", Name: "a/b"}, Text: "cluster a/b, hunter22hunter22", Of: of, Orphan: true},
		},
		Notes:   []string{"openstack/old, which earlier runs worked on"},
		Budget:  2,
		Command: "gsrun destroy gateway --confirm x --max-deletes 3",
	}
}

func TestDestroy(t *testing.T) {
	r := new(effect.Redactor)
	r.Add("hunter22hunter22")
	var b bytes.Buffer
	if err := Destroy(&b, aDestroy(), PlanOptions{Redactor: r}); err != nil {
		t.Fatal(err)
	}
	golden(t, "destroy.txt", b.Bytes())
	b.Reset()
	if err := DestroyJSON(&b, aDestroy(), PlanOptions{Redactor: r}); err != nil {
		t.Fatal(err)
	}
	golden(t, "destroy.json", b.Bytes())
	if s := b.String(); strings.Contains(s, "hunter22") || strings.Count(s, "\n") != 1 {
		t.Errorf("got %q", s)
	}
	var rec DestroyRecord
	if err := json.Unmarshal(b.Bytes(), &rec); err != nil || len(rec.Delete) != 3 || len(rec.InTheWay) != 1 || len(rec.Orphans) != 1 || !rec.Deletions.Exceeded {
		t.Errorf("%v: %+v", err, rec)
	}
}

// What to do is said by what is in the way.
func TestDestroyVerdict(t *testing.T) {
	full := aDestroy()
	full.Budget = 3
	clear, orphans, confirmed := full, full, full
	clear.Others, orphans.Others, confirmed.Command = nil, full.Others[1:], ""
	for want, d := range map[string]DestroyData{
		"3 to delete, 1 left.\nDelete what is in the way first.\n":                                                                           full,
		"3 to delete, 1 left.\nTo delete them: gsrun destroy gateway --confirm x --max-deletes 3\n":                                          clear,
		"delete its machines yourself later, and what is listed now: gsrun destroy gateway --confirm x --max-deletes 3 --abandon-clusters\n": orphans,
		"\n3 to delete, 1 left.\n": confirmed,
		"Nothing to destroy.\n":    {},
		"So that b no longer counts as a user of secret/x: gsrun destroy b\n": {Recipe: "b", Uses: []string{"secret/x"}, Command: "gsrun destroy b"},
		"From now on b no longer counts as a user of secret/x.\n":             {Recipe: "b", Uses: []string{"secret/x"}},
		"Nothing is owned and no longer declared.\n":                          {Undeclared: true},
	} {
		var b bytes.Buffer
		if err := Destroy(&b, d, PlanOptions{}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("want %q at the end of\n%s", want, b.String())
		}
	}
}

// A plan tells what is no longer declared, and when it can't know.
func TestPlanUndeclared(t *testing.T) {
	for name, c := range map[string]struct {
		u          Undeclared
		text, json string
	}{
		"nothing": {Undeclared{}, "No changes.\n", `"undeclared":[]`},
		"some": {Undeclared{Things: []effect.Owned{owned("network", "x-old", "n-9")}, Command: "gsrun destroy a --undeclared"},
			"Owned and no longer declared:\n  openstack/lab/network/x-old (n-9)\n  To delete them: gsrun destroy a --undeclared\n\nNo changes.\n",
			`"undeclared":[{"target":"openstack/lab/network/x-old","id":"n-9","mark":"gsrun:x/gateway/x-old"}]`},
		"stopped": {Undeclared{Unsure: 2}, "The plan stopped before it came to 2 things that the site owns: whether they are still declared isn't known.\n\nNo changes.\n", `"undeclared":null`},
		"failed":  {Undeclared{Err: fault.New(fault.Denied, "no rights")}, "What is owned and no longer declared isn't known: no rights\n\nNo changes.\n", `"undeclared":null`},
	} {
		p := PlanData{Undeclared: c.u, Budget: -1}
		var text, line bytes.Buffer
		if err := Plan(&text, p, PlanOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := PlanJSON(&line, p, PlanOptions{}); err != nil {
			t.Fatal(err)
		}
		if text.String() != c.text || !strings.Contains(line.String(), c.json) {
			t.Errorf("%s: got\n%s%s", name, text.String(), line.String())
		}
	}
}
