package effect

import (
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestContract(t *testing.T) {
	redactor := new(Redactor)
	redactor.Add("opensesame-opensesame")
	saver := NewSaver([]byte("0123456789abcdef"), redactor)
	net := Target{Scope: "cloud", Kind: "network", Name: "mgmt"}
	token := SecretOf("opensesame-opensesame", "")
	update := func(mtu int, extra ...Field) Change {
		return Change{Kind: Update, Fields: append([]Field{{"mtu", 1500, mtu}}, extra...), After: map[string]any{"id": Unknown{Of: "id"}, "mtu": mtu}}
	}
	var planned []SavedChange
	save := func(step string, to Target, c Change, pos string) {
		t.Helper()
		s, err := saver.Save(step, to, c, pos)
		if err != nil {
			t.Fatal(err)
		}
		planned = append(planned, s)
	}
	save("a", net, update(1400), "x.star:1")
	save("b", net, Change{Kind: Create, Fields: []Field{{"rules", nil, "one"}, {"rules", nil, Unknown{Of: "two"}}, {"token", nil, token}, {"text", nil, "with opensesame-opensesame in it"}}}, "x.star:2")
	save("c", Target{Kind: "cloud.network.ensure", Unknown: true}, Change{Kind: Later}, "x.star:3")
	save("d", net, Change{Kind: Later, Fields: []Field{{"mtu", nil, 1}}}, "x.star:4")
	save("e", net, Change{Kind: Create, Fields: []Field{{"sub", nil, map[string]any{"ip": Unknown{Of: "ip"}, "port": 80}}}}, "x.star:5")
	half := Target{Scope: "cloud", Kind: "network", Name: "half"}
	save("f", half, update(1400), "x.star:6")
	gone := Target{Scope: "cloud", Kind: "network", Name: "gone"}
	save("g", gone, Change{Kind: Later, May: Delete}, "x.star:7")
	c := NewContract(saver, planned, []string{"late", "many[1]"}, map[string]bool{"cloud/network/half": true})
	created := func(fields ...Field) Change { return Change{Kind: Create, Fields: fields} }
	other := Target{Scope: "cloud", Kind: "network", Name: "other"}
	for name, x := range map[string]struct {
		step, pos string
		target    Target
		change    Change
		want      string // in the error; "" admits
	}{
		"the same":                   {"a", "x.star:9", net, update(1400), ""},
		"another value":              {"a", "", net, update(1300), "mtu was to become 1400 and would become 1300"},
		"another state":              {"a", "", net, Change{Kind: Update, Fields: []Field{{"mtu", 1600, 1400}}}, "mtu was 1500 and is 1600"},
		"one more field":             {"a", "", net, update(1400, Field{"name", "x", "y"}), "name changes too"},
		"one field less":             {"a", "", net, Change{Kind: Update}, "mtu needs no change any more"},
		"another kind":               {"a", "", net, Change{Kind: Replace, Fields: []Field{{"mtu", 1500, 1400}}}, "update was planned, now it would replace"},
		"another step":               {"z", "", net, update(1400), "the plan doesn't have that step z would update this"},
		"another target":             {"a", "x.star:1", other, update(1400), "the plan doesn't have"},
		"what wasn't known, filled":  {"b", "", net, created(Field{"rules", nil, "two"}, Field{"rules", nil, "one"}, Field{"token", nil, token}, Field{"text", nil, "with opensesame-opensesame in it"}), ""},
		"another secret":             {"b", "", net, created(Field{"rules", nil, "one"}, Field{"token", nil, SecretOf("another-secret", "")}, Field{"text", nil, "with opensesame-opensesame in it"}), "token was to become *** and would become ***"},
		"another text with a secret": {"b", "", net, created(Field{"rules", nil, "one"}, Field{"token", nil, token}, Field{"text", nil, "opensesame-opensesame"}), "text was to become ***"},
		"a call with unknown target": {"c", "x.star:3", other, created(), ""},
		"another call":               {"c", "x.star:4", other, created(), "the plan doesn't have"},
		"not known what":             {"d", "", net, created(Field{"mtu", nil, 1}, Field{"name", nil, "x"}), ""},
		"unknown within":             {"e", "", net, created(Field{"sub", nil, map[string]any{"ip": "10.0.0.1", "port": 80}}), ""},
		"known beside unknown":       {"e", "", net, created(Field{"sub", nil, map[string]any{"ip": "10.0.0.1", "port": 81}}), "sub was to become"},
		"not known, but wanted":      {"d", "", net, created(Field{"mtu", nil, 5}), "mtu was to become 1 and would become 5"},
		"a deletion out of nowhere":  {"d", "", net, Change{Kind: Delete}, "it would delete, which wasn't planned"},
		"one that may be":            {"g", "", gone, Change{Kind: Delete}, ""},
		"half made by this plan":     {"f", "", half, Change{Kind: Update, Fields: []Field{{"mtu", 1450, 1400}}}, ""},
		"half made, another value":   {"f", "", half, Change{Kind: Update, Fields: []Field{{"mtu", 1450, 1300}}}, "mtu was to become 1400"},
		"after the plan's end":       {"late", "", net, created(), "the plan of step late ends before"},
		"in a part of that":          {"late/part", "", net, created(), "the plan of step late/part ends before"},
		"in an item":                 {"many[1]", "", net, created(), "the plan of step many[1] ends before"},
		"in another item":            {"many[2]", "", net, created(), "the plan doesn't have"},
	} {
		err := c.Admit(x.step, x.pos, x.target, x.change)
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want) || fault.KindOf(err) != fault.Drift):
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
	for _, s := range planned {
		for _, f := range s.Fields {
			if strings.Contains(string(f.New), "opensesame") {
				t.Errorf("the saved plan holds the secret: %s", f.New)
			}
		}
	}
	err := c.Drift([]Planned{{Step: "a", Target: net, Change: update(1400)}}, []string{"new"}, func(target string) bool { return target == "cloud/network/other" })
	for _, want := range []string{"step new can't be planned to its end any more", "step b has nothing to do with cloud/network/mgmt any more", "\n"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("drift: %v, want %q", err, want)
		}
	}
}
