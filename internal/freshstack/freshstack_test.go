package freshstack

import "testing"

func TestPanicContinuesInTheCaller(t *testing.T) {
	defer func() {
		if got := recover(); got != "fault" {
			t.Errorf("recovered %v", got)
		}
	}()
	Run(func() { panic("fault") })
	t.Error("the panic was lost")
}

func TestRunWaits(t *testing.T) {
	done := false
	Run(func() { done = true })
	if !done {
		t.Error("Run returned before the function")
	}
}
