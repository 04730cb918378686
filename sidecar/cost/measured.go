package cost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Measured are figures of a running deployment, over a stretch of its normal load. With them the model counts what really
// crosses: framing, acknowledgements, stability vectors and all.
type Measured struct {
	// MissRatio is the share of the gets of sessions that are not bound which neither the sidecar nor the cache answered.
	MissRatio float64 `json:"missRatio"`
	// WANBytesPerGet are the bytes between data centres, in both directions, that gets caused, by the number of all gets.
	WANBytesPerGet float64 `json:"wanBytesPerGet"`
	// WANBytesPerPut are those that puts caused, by the number of puts.
	WANBytesPerPut float64 `json:"wanBytesPerPut"`
}

// LoadMeasured reads a JSON file of measured figures. All three are needed, and no others may be there.
func LoadMeasured(path string) (Measured, error) {
	var m Measured
	b, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("read measured figures: %w", err)
	}
	var fields struct{ MissRatio, WANBytesPerGet, WANBytesPerPut *float64 }
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&fields); err != nil {
		return m, fmt.Errorf("measured figures %s: %w", path, err)
	}
	if fields.MissRatio == nil || fields.WANBytesPerGet == nil || fields.WANBytesPerPut == nil {
		return m, fmt.Errorf("measured figures %s: missRatio, wanBytesPerGet and wanBytesPerPut are all needed", path)
	}
	m = Measured{*fields.MissRatio, *fields.WANBytesPerGet, *fields.WANBytesPerPut}
	if !(m.MissRatio >= 0 && m.MissRatio <= 1) {
		return m, fmt.Errorf("measured figures %s: missRatio is %g; it is a share, give a number from 0 to 1", path, m.MissRatio)
	}
	if m.WANBytesPerGet < 0 || m.WANBytesPerPut < 0 {
		return m, fmt.Errorf("measured figures %s: bytes must be 0 or more", path)
	}
	return m, nil
}

// Use sets miss ratio and bytes to what was measured with the rings of today. Bytes by operation become bytes by crossing,
// so that they hold for other rings as well.
func (s *Scenario) Use(m Measured) error {
	if s.Today == nil {
		return errors.New("measured figures need the rings they were measured with: give rings in the input")
	}
	for i := range s.DCs {
		s.DCs[i].MissRatio = m.MissRatio
	}
	s.PutBytes, s.GetBytes = 1, 1
	puts, gets := s.Rings(s.Today, 1).PutBytes, s.Rings(s.Today, 0).GetBytes // crossings per operation
	var err error
	if s.PutBytes, err = perCrossing("wanBytesPerPut", m.WANBytesPerPut, puts); err != nil {
		return err
	}
	s.GetBytes, err = perCrossing("wanBytesPerGet", m.WANBytesPerGet, gets)
	return err
}

func perCrossing(field string, bytes, crossings float64) (float64, error) {
	switch {
	case bytes == 0:
		return 0, nil
	case crossings == 0:
		return 0, fmt.Errorf("measured %s is %g, but with these rings and this miss ratio nothing crosses: check rings and missRatio",
			field, bytes)
	}
	return bytes / crossings, nil
}
