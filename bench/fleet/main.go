// Command fleet simulates clusters that share workspaces, behind a router that knows the cluster of each workspace. It prints how
// evenly the load is spread, what a lost cluster costs, and what moves when clusters are added. docs/sizing.md has its
// assumptions and its output.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
)

// A workspace has sessions, and each active one has events.
type workspace struct {
	key      uint64 // hash of its name
	sessions float64
}

// fleet is clusters with workspaces.
type fleet struct {
	load   []float64 // sessions of each cluster
	placed []int     // the cluster of each workspace
}

// settings of a simulation.
type settings struct {
	clusters   int
	workspaces int
	sessions   float64 // of all workspaces
	skew       float64 // exponent of the sizes: the nth workspace has 1/n^skew of the largest
	capacity   float64 // sessions of one cluster
	seed       uint64
}

func main() {
	s := settings{}
	flag.IntVar(&s.clusters, "clusters", 33, "clusters of three nodes")
	flag.IntVar(&s.workspaces, "workspaces", 100_000, "workspaces")
	flag.Float64Var(&s.sessions, "sessions", 70e6, "sessions of all workspaces")
	flag.Float64Var(&s.skew, "skew", 0.8, "the nth workspace has 1/n^skew of the sessions of the largest")
	flag.Float64Var(&s.capacity, "capacity", 3e6, "sessions that one cluster carries")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the names")
	flag.Parse()
	s.print(os.Stdout)
}

// make returns the workspaces, in random order.
func (s *settings) make() []workspace {
	r := rand.New(rand.NewPCG(s.seed, 0))
	all := make([]workspace, s.workspaces)
	sum := 0.0
	for i := range all {
		all[i] = workspace{r.Uint64(), math.Pow(float64(i+1), -s.skew)}
		sum += all[i].sessions
	}
	for i := range all {
		all[i].sessions *= s.sessions / sum
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// ranks returns the two clusters with the highest weights for a workspace. The weight of a cluster depends on nothing but the
// cluster and the workspace, so another number of clusters changes few of them.
func ranks(key uint64, clusters int) (first, second int) {
	var best, next uint64
	for c := range clusters {
		w := mix(key ^ mix(uint64(c)+1))
		switch {
		case c == 0 || w > best:
			second, next = first, best
			first, best = c, w
		case c == 1 || w > next:
			second, next = c, w
		}
	}
	return first, second
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// byHash places each workspace in the cluster with the highest weight. The router stores nothing.
func byHash(all []workspace, clusters int) fleet {
	f := fleet{make([]float64, clusters), make([]int, len(all))}
	for i, w := range all {
		f.placed[i], _ = ranks(w.key, clusters)
		f.load[f.placed[i]] += w.sessions
	}
	return f
}

// byTable places each new workspace in the less loaded of its two clusters, at the size that it has in the end. The router stores
// one entry for each workspace.
func byTable(all []workspace, clusters int) fleet {
	f := fleet{make([]float64, clusters), make([]int, len(all))}
	for i, w := range all {
		a, b := ranks(w.key, clusters)
		if f.load[b] < f.load[a] {
			a = b
		}
		f.placed[i] = a
		f.load[a] += w.sessions
	}
	return f
}

// grow adds clusters, and moves workspaces from the most loaded cluster to the least loaded one until none has more than a tenth
// above the mean. It returns how many have moved, and how many sessions.
func (f *fleet) grow(all []workspace, more int) (moved int, sessions float64) {
	f.load = append(f.load, make([]float64, more)...)
	members := make([][]int, len(f.load))
	for i, c := range f.placed {
		members[c] = append(members[c], i)
	}
	for c := range members { // the largest that fits is moved first: fewer moves
		slices.SortFunc(members[c], func(a, b int) int { return cmp.Compare(all[a].sessions, all[b].sessions) })
	}
	mean := sum(f.load) / float64(len(f.load))
	for {
		from, to := slices.Index(f.load, slices.Max(f.load)), slices.Index(f.load, slices.Min(f.load))
		if f.load[from] <= 1.1*mean {
			return moved, sessions
		}
		room := min(mean-f.load[to], f.load[from]-mean)
		i := len(members[from]) - 1
		for i > 0 && all[members[from][i]].sessions > room {
			i--
		}
		w := members[from][i]
		if all[w].sessions > f.load[from]-f.load[to] {
			return moved, sessions // one workspace is larger than the difference
		}
		members[from] = slices.Delete(members[from], i, i+1)
		members[to] = append(members[to], w)
		slices.SortFunc(members[to], func(a, b int) int { return cmp.Compare(all[a].sessions, all[b].sessions) })
		f.placed[w] = to
		f.load[from] -= all[w].sessions
		f.load[to] += all[w].sessions
		moved++
		sessions += all[w].sessions
	}
}

func (s *settings) print(out io.Writer) {
	all := s.make()
	largest := slices.MaxFunc(all, func(a, b workspace) int { return cmp.Compare(a.sessions, b.sessions) })
	fmt.Fprintf(out, "%d clusters of three nodes, %d workspaces, %.1f M sessions; the largest workspace has %.2f M.\n\n", s.clusters, s.workspaces, s.sessions/1e6, largest.sessions/1e6)
	fmt.Fprintln(out, "| router | entries | load of the fullest cluster, of the mean | clusters over their capacity |\n|---|---|---|---|")
	hash, table := byHash(all, s.clusters), byTable(all, s.clusters)
	for _, f := range []struct {
		name    string
		entries int
		fleet
	}{{"hash of the name", 0, hash}, {"table, new workspaces to the emptier of two clusters", s.workspaces, table}} {
		over := 0
		for _, l := range f.load {
			if l > s.capacity {
				over++
			}
		}
		fmt.Fprintf(out, "| %s | %d | %.2f | %d |\n", f.name, f.entries, slices.Max(f.load)/mean(f.load), over)
	}
	fmt.Fprintf(out, "\nA lost cluster takes %.1f to %.1f %% of the sessions with it until it is back; a lost node none.\n", 100*slices.Min(table.load)/s.sessions, 100*slices.Max(table.load)/s.sessions)
	const more = 3
	byName := byHash(all, s.clusters+more)
	moved, sessions := 0, 0.0
	for i := range all {
		if byName.placed[i] != hash.placed[i] {
			moved++
			sessions += all[i].sessions
		}
	}
	fmt.Fprintf(out, "%d more clusters: with the hash %d workspaces move (%.1f %% of the sessions), all at once; ", more, moved, 100*sessions/s.sessions)
	moved, sessions = table.grow(all, more)
	fmt.Fprintf(out, "with the table %d (%.1f %%), one after the other, and the fullest cluster then has %.2f of the mean.\n", moved, 100*sessions/s.sessions, slices.Max(table.load)/mean(table.load))
}

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}

func mean(all []float64) float64 { return sum(all) / float64(len(all)) }
