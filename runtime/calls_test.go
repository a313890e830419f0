package runtime

import (
	"context"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

type shop struct{}

type shelf struct{}

func (*shelf) Attrs() map[string]any { return nil }

type openArgs struct {
	Name string `star:"name,required" doc:"Name."`
	Size int    `star:"size" doc:"Size."`
}

func shopModule() *builtin.Module {
	open := builtin.Spec[any, openArgs]{Name: "open", Doc: "Open.", Returns: "shop.shelf", Example: "shop.open()", Effect: builtin.Connect,
		Run: func(context.Context, any, openArgs) (any, error) { return &shelf{}, nil }}
	get := open
	get.Name, get.Returns = "get", "dict"
	find := open
	find.Name, find.Returns = "find", "shop.shelf or None"
	return builtin.NewModule(builtin.Module{Name: "shop", Doc: "Shop.", Recv: &shop{}, Funcs: []builtin.Func{builtin.Of(open)},
		Types: []*builtin.Type{{Name: "shop.shelf", Doc: "Shelf.", Of: builtin.TypeOf[*shelf](), Attrs: []builtin.Attr{{Name: "id", Type: "str", Doc: "Id."}},
			Nouns: []builtin.Noun{{Name: "book", Doc: "Book.", Identity: builtin.NaturalKey, Verbs: []builtin.Func{builtin.Of(get), builtin.Of(find)}}}}}})
}

// TestCallsAreCheckedWhenLoading goes through what can be known of a call
// before anything runs.
func TestCallsAreCheckedWhenLoading(t *testing.T) {
	load := func(body string) error {
		src := "load(\"lib.star\", \"shelf_of\", \"something\", \"use\")\n" + body
		lib := "def shelf_of(name):\n    return shop.open(name)\n\ndef something(x):\n    if x:\n        return shop.open(\"a\")\n    return 3\n\ndef use(s):\n    s.book.gte(\"x\")\n"
		e := New(Config{Layers: []Layer{layer("tree", "recipes", "x.star", src, "lib.star", lib)}, Modules: []*builtin.Module{shopModule()}})
		_, err := e.Globals("x.star")
		return err
	}
	for body, want := range map[string]string{
		"def f():\n    shop.opne(\"a\")\n":                                                                     "x.star:3:10: shop has no opne",
		"def f():\n    shop.open()\n":                                                                          "missing argument name",
		"def f():\n    shop.open(\"a\", sise = 1)\n":                                                           "shop.open: unknown argument sise",
		"def f():\n    shop.open(\"a\", 2, 3)\n":                                                               "2 arguments too many by position",
		"def f():\n    s = shop.open(\"a\")\n    s.bok.get(\"x\")\n":                                           "shop.shelf has no bok",
		"def f():\n    s = shop.open(\"a\")\n    s.book.get()\n":                                               "shop.shelf.book.get: missing argument name",
		"def f():\n    return [shop.open(\"a\").book.got(\"x\")]\n":                                            "shop.shelf.book has no got",
		"def f():\n    shelf_of(\"a\").book.get(nome = \"x\")\n":                                               "unknown argument nome",
		"def f():\n    h().book.get()\n\ndef h():\n    return shop.open(\"a\")\n":                              "missing argument name",
		"f = lambda: shop.open(sise = 1)\n":                                                                    "unknown argument sise",
		"def f():\n    for i in [1]:\n        if i:\n            x = {\"a\": shop.open()}\n":                   "missing argument name",
		"def f():\n    g(shop.open(\"a\"))\n\ndef g(s):\n    s.book.get(nome = \"x\")\n":                       "x.star:6:16: shop.shelf.book.get: unknown argument nome",
		"def f():\n    g(1, s = shop.open(\"a\"))\n\ndef g(x, *, s):\n    for i in x:\n        s.book.get()\n": "missing argument name",
		"def f():\n    g(shop.open(\"a\")).book.get()\n\ndef g(s):\n    return s\n":                            "missing argument name",
		"def f():\n    use(shop.open(\"a\"))\n":                                                                "lib.star:10:12: shop.shelf.book has no gte",
		"def f():\n    g(shop)\n\ndef g(m):\n    h(m)\n\ndef h(m):\n    m.open(sise = 1)\n":                    "unknown argument sise",
		"def f():\n    s = shop.open(\"a\").book.find(\"x\")\n    s.book.get()\n":                              "missing argument name",
	} {
		err := load(body)
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
	err := load("def f():\n    shop.opne(\"a\")\n    shop.open(\"a\", sise = 1)\n")
	if err == nil || !strings.Contains(err.Error(), "did you mean open?") || !strings.Contains(err.Error(), "did you mean size?") {
		t.Errorf("both at once, with hints: %v", err)
	}
	// What can't be known is left alone.
	for _, body := range []string{
		"def f(shop):\n    shop.anything(x = 1)\n",
		"def f():\n    shop = struct(any = 1)\n    return shop.any\n",
		"def f(args):\n    shop.open(**args)\n    shop.open(*args)\n",
		"def f():\n    return shop.open(\"a\").id\n",
		"def f(x):\n    s = shop.open(\"a\")\n    if x:\n        s = struct(other = 1)\n    return s.other\n",
		"def f():\n    return something(1).whatever\n",
		"def f():\n    return [shop.nothing for shop in []]\n",
		"def f():\n    return shop.open(\"a\").book.get(\"x\").field\n",
		"def f():\n    for i in range(2):\n        if i > 0:\n            print(shop.id)\n        shop = struct(id = i)\n",
		"def f():\n    def g():\n        return shop.foo\n    shop = struct(foo = 1)\n    return g()\n",
		"if True:\n    shop = struct(foo = 1)\ndef f():\n    return shop.foo\n",
		"for shop in [struct(foo = 1)]:\n    pass\ndef f():\n    return shop.foo\n",
		"def mk():\n    return struct(foo = 1)\n\ndef f():\n    def mk():\n        return shop.open(\"a\")\n    return mk()\n\nx = mk().foo\n",
		"def f():\n    g(struct(other = 1))\n    g(shop.open(\"a\"))\n\ndef g(s):\n    return s.other if hasattr(s, \"other\") else s.book\n",
		"def f(all):\n    g(*all)\n    g(struct(any = 1))\n    g(s = 3)\n\ndef g(s):\n    return s.any\n",
		"def f(n):\n    g(shop.open(\"a\"), n)\n\ndef g(s, n):\n    if n:\n        g(s, n)\n    s = struct(x = 1)\n    return s.x\n",
		"def f():\n    use(struct(book = struct(gte = 1)))\n",
		"def using(ctx):\n    return ctx.cluster\nx = (lambda ctx: ctx.cluster)(struct(cluster = 1))\n",
		"def f():\n    return \"a\".index(\"b\") + {}.get(\"x\", 0)\n",
	} {
		if err := load(body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}
