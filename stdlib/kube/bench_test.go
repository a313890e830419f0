package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// benchObjects is how many objects a benchmark applies at a time.
const benchObjects = 200

// BenchmarkApplyUnchanged applies objects that are as wanted.
func BenchmarkApplyUnchanged(b *testing.B) {
	conf := kubeconfig(b, "bench", "system:masters")
	var manifests strings.Builder
	for i := range benchObjects {
		fmt.Fprintf(&manifests, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bench-%d, namespace: default}\ndata: {a: b, c: %q}\n", i, strings.Repeat("x", 500))
	}
	m := kube.Module(kube.Config{})
	defer func() { _ = m.Recv.(*kube.Kube).Close() }()
	opts := startest.Options{Modules: []*builtin.Module{m}, Globals: starlark.StringDict{"kubeconfig": starlark.String(conf), "manifests": starlark.String(manifests.String())}}
	globals := startest.Load(b, "bench.star", `
def bench():
    kube.cluster("lab", kubeconfig = kubeconfig).apply(manifests = manifests)
`, opts)
	call := func() {
		if _, err := startest.Call(b, globals["bench"].(starlark.Callable), opts); err != nil {
			b.Fatal(startest.Explain(err))
		}
	}
	call()
	for b.Loop() {
		call()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchObjects), "µs/object")
}

// BenchmarkBareApply sends the same applies by client-go alone, without looking.
func BenchmarkBareApply(b *testing.B) {
	conf, err := start(b).REST("bench", "system:masters")
	if err != nil {
		b.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(conf).Resource(configMaps).Namespace("default")
	bodies := make([][]byte, benchObjects)
	for i := range bodies {
		if bodies[i], err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("bare-%d", i)},
			"data": map[string]any{"a": "b", "c": strings.Repeat("x", 500)}}); err != nil {
			b.Fatal(err)
		}
	}
	apply := func() {
		group, ctx := errgroup.WithContext(context.Background())
		group.SetLimit(8)
		for i, body := range bodies {
			group.Go(func() error {
				_, err := client.Patch(ctx, fmt.Sprintf("bare-%d", i), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "bare"})
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	apply()
	for b.Loop() {
		apply()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchObjects), "µs/object")
}
