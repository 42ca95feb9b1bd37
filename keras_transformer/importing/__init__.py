"""Import of trained models of other toolkits as model folders of this package."""
