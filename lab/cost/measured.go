package cost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Measured are figures of a running deployment over a period of normal load. With them the model counts what is really
// sent: framing, acknowledgements, stability vectors and all.
type Measured struct {
	// MissRatio is the share of the gets of unrestricted sessions that neither the sidecar nor the cache answered.
	MissRatio float64 `json:"missRatio"`
	// WANBytesPerGet are the bytes between data centers that gets caused, in both directions, per get.
	WANBytesPerGet float64 `json:"wanBytesPerGet"`
	// WANBytesPerPut are those that puts caused, per put.
	WANBytesPerPut float64 `json:"wanBytesPerPut"`
}

// LoadMeasured reads a JSON file of measured figures. It must have all three and no others.
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
		return m, fmt.Errorf("measured figures %s: give missRatio, wanBytesPerGet and wanBytesPerPut", path)
	}
	m = Measured{*fields.MissRatio, *fields.WANBytesPerGet, *fields.WANBytesPerPut}
	if !(m.MissRatio >= 0 && m.MissRatio <= 1) {
		return m, fmt.Errorf("measured figures %s: missRatio is %g; it is a share and must be between 0 and 1", path,
			m.MissRatio)
	}
	if m.WANBytesPerGet < 0 || m.WANBytesPerPut < 0 {
		return m, fmt.Errorf("measured figures %s: bytes must not be negative", path)
	}
	return m, nil
}

// Use sets the miss ratio and the bytes to what was measured with the current rings. It converts bytes per operation to
// bytes per crossing, so that they apply to other rings too.
func (s *Scenario) Use(m Measured) error {
	if s.Today == nil {
		return errors.New(
			"measured figures apply to the rings that they were measured with: add these rings to the input")
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
		return 0,
			fmt.Errorf(
				"measured %s is %g, but with these rings and this miss ratio nothing is sent between data centers: "+
					"check rings and missRatio",
				field, bytes)
	}
	return bytes / crossings, nil
}
