package sim

// Exclusions:
//
//	exclude use1 NODE...    excludes a data center: all nodes receive the new topology at once, but for those that are down, and those named
func init() { verbs["exclude"] = (*scenario).exclude }

func (s *scenario) exclude(args []string) (string, error) {
	dc, _, err := s.prepareScaling([]string{args[0], "0"})
	if err != nil {
		return "", err
	}
	if _, err := s.each(args[1:], func(n *node) { s.scaler.withheld = append(s.scaler.withheld, n) }); err != nil {
		return "", err
	}
	s.scaler.exclude(dc)
	return "", nil
}
