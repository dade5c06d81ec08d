// Package e2e tests the whole program from outside: the real binary on a
// temporary data folder and a loopback port, spoken to as a client, an operator
// or an attacker would. It has no code of its own besides its tests, which
// build the binary once. Processes are started and ended one by one; every wait
// has a bound.
package e2e
