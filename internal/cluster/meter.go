package cluster

import "time"

// Meter measures the work of a replica. Its methods are called one after the other and must not block.
type Meter interface {
	// Queued gets how long a record of this process has waited for its frame.
	Queued(time.Duration)
	// Stored gets the time from the first append of a frame of this process until it was read back from the log.
	Stored(time.Duration)
	// Applied gets what a frame meant, the number of its records, and how long the store took for them.
	Applied(v Verdict, records int, took time.Duration)
	// Claimed is called after a claim has counted. handover is false if the owner before did not give the partition up.
	Claimed(handover bool)
}

// noMeter measures nothing.
type noMeter struct{}

func (noMeter) Queued(time.Duration)                {}
func (noMeter) Stored(time.Duration)                {}
func (noMeter) Applied(Verdict, int, time.Duration) {}
func (noMeter) Claimed(bool)                        {}
