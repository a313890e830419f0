package agree

import (
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// TestWrongClaimsAreFound plans one recipe and applies another: what differs
// must be found.
func TestWrongClaimsAreFound(t *testing.T) {
	skip.Slow(t, "it starts a lab for each row")
	g := newGround(t)
	for i, c := range []struct{ plan, run, wrong string }{
		{`ctx.log("a")`, `ctx.log("b")`, `was to log "a", and logged "b"`},
		{`ctx.log("a")`, `pass`, `was to log "a", and didn't`},
		{`pass`, `ctx.log("b")`, `logged "b", which wasn't planned`},
		{`return 1`, `return 2`, "the result of s is 1 in the plan and 2 in fact"},
		{`return struct(a = [1, "x"])`, `return struct(a = [1, "y"])`, "the result of s is"},
		{`return {"a": 1}`, `return {"a": 1, "b": 2}`, "the result of s is"},
		{`cloud.network.ensure("n")`, `pass`, "s: create openstack/lab/network/n was planned and not made"},
		{`pass`, `cloud.network.ensure("n")`, "create openstack/lab/network/n was made and not planned"},
		{`cloud.network.ensure("n", mtu = 1400)`, `cloud.network.ensure("n", mtu = 1450)`, "network/n: mtu is 1400 in the plan and 1450 in fact"},
		{`cloud.network.ensure("n", mtu = 1400)`, `cloud.network.ensure("n")`, "mtu was to change from <nil> to 1400, and it didn't"},
		{`cloud.network.ensure("n")`, `cloud.network.ensure("n", mtu = 1450)`, "mtu changed from <nil> to 1450, which wasn't planned"},
		{`cloud.network.ensure("old")`, `cloud.network.delete("old")`, "delete openstack/lab/network/old was made and not planned"},
		{`cloud.network.ensure("old", mtu = 1400)`, `cloud.network.delete("old")`, "update openstack/lab/network/old was planned, and made was: s: delete"},
		{`h.file.ensure("/etc/f", content = "a\n")`, `h.file.ensure("/etc/f", content = "b\n")`, `content is "a\n" in the plan and "b\n" in fact`},
		{`fail("no")`, `pass`, "the plan fails with"},
		{`fail("no")`, `fail("yes")`, "and it failed with"},
		{`pass`, `fail("no")`, "all was known, the plan doesn't fail, and it failed with"},
		{"n = cloud.network.ensure(\"n\")\nif n.id == \"x\": pass", "cloud.network.ensure(\"n\")\ncloud.network.ensure(\"m\")", ""},
	} {
		w, err := g.newWorld(t.TempDir(), uint64(60_000+i))
		if err != nil {
			t.Fatal(err)
		}
		recipe := func(body string) map[string]string {
			tc := &testCase{steps: []*stepText{{name: "s", params: "ctx", body: []string{body}, result: "None", decl: "s"}}, outputs: "None"}
			return tc.files()
		}
		if o := w.run(effect.Apply, recipe(`cloud.network.ensure("old")`), "main.star"); o.err != nil {
			t.Fatal(o.err)
		}
		wrong := check(w.run(effect.Plan, recipe(c.plan), "main.star"), w.run(effect.Apply, recipe(c.run), "main.star"), new(tally))
		if text := strings.Join(wrong, "\n"); c.wrong == "" && text != "" || !strings.Contains(text, c.wrong) {
			t.Errorf("%s, and then %s: found %q, want %q", c.plan, c.run, text, c.wrong)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}
