package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// plan measures a plan of the main job where all is as it should be, beside a
// run of it that changes nothing: whole processes.
func plan(ctx context.Context, program string) (figures []figure, err error) {
	dir, err := os.MkdirTemp("", "gsrun-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, err = filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	gsrun := func(args ...string) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "GSRUN_LAB_DIR="+filepath.Join(dir, "w"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("gsrun %v: %w: %s", args, err, out)
		}
		return nil
	}
	if err := gsrun("lab", "up"); err != nil {
		return nil, err
	}
	defer func() {
		if derr := gsrun("lab", "down"); err == nil {
			err = derr
		}
	}()
	const recipe = "recipes/bootstrap.star"
	if err := gsrun(recipe, "--lab"); err != nil {
		return nil, err
	}
	// In turns, so that what else the machine does meets all of them.
	calls := [][]string{{"plan", recipe, "--lab"}, {"plan", recipe, "--lab", "--out", filepath.Join(dir, "plan")}, {"run", recipe, "--lab"}}
	times := make([][]time.Duration, len(calls))
	for range 11 {
		for i, args := range calls {
			begin := time.Now()
			if err := gsrun(args...); err != nil {
				return nil, err
			}
			times[i] = append(times[i], time.Since(begin))
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	middle := func(i int) float64 { return ms(times[i][len(times[i])/2]) }
	return []figure{
		{"plan/converged", middle(0), "ms", "apply-of-nothing", middle(2), "1.1x"},
		{"plan/converged-saved", middle(1), "ms", "apply-of-nothing", middle(2), "1.1x"},
	}, nil
}
