package main

import (
	"slices"
	"testing"
)

func TestMoreClustersMoveWorkspacesOnlyToThem(t *testing.T) {
	s := settings{clusters: 33, workspaces: 20_000, sessions: 1e6, skew: 0.8, seed: 1}
	all := s.make()
	before, after := byHash(all, 33), byHash(all, 36)
	moved := 0
	for i := range all {
		if before.placed[i] == after.placed[i] {
			continue
		}
		if moved++; after.placed[i] < 33 {
			t.Fatalf("a workspace moves from cluster %d to %d, which was there before", before.placed[i], after.placed[i])
		}
	}
	if share := float64(moved) / float64(len(all)); share < 0.06 || share > 0.11 {
		t.Errorf("%.3f of the workspaces move, want about 3/36", share)
	}
}

func TestGrowingFleetIsBalanced(t *testing.T) {
	s := settings{clusters: 10, workspaces: 5000, sessions: 1e6, skew: 0.6, seed: 2}
	all := s.make()
	f := byTable(all, s.clusters)
	f.grow(all, 2)
	load := make([]float64, 12)
	for i, c := range f.placed {
		load[c] += all[i].sessions
	}
	for c := range load {
		if d := load[c] - f.load[c]; d > 1e-6 || d < -1e-6 {
			t.Errorf("cluster %d has %f sessions, counted were %f", c, load[c], f.load[c])
		}
	}
	if most := slices.Max(load) / mean(load); most > 1.1 {
		t.Errorf("the fullest cluster has %.2f of the mean", most)
	}
}
