// logwatch as a monitoring mixin, for those who build their configuration with jsonnet. Nobody else needs it: what it
// gives is rendered beside it.
local groups = std.parseYaml(importstr 'rules/logwatch.yml').groups;

{
  _config+:: {
    runbookURL: null,  // folder of the runbooks, for the annotation `runbook_url`
  },

  local config = self._config,
  local linked(rule) =
    if config.runbookURL == null || !std.objectHas(rule, 'alert') then rule
    else rule { annotations+: { runbook_url: config.runbookURL + '/' + rule.alert + '.md' } },

  grafanaDashboardFolder:: 'logwatch',
  grafanaDashboards+:: {
    'logwatch-server.json': import 'logwatch-server.json',
    'logwatch-fleet.json': import 'logwatch-fleet.json',
    'logwatch-health.json': import 'logwatch-health.json',
  },
  prometheusRules+:: {
    groups+: [group for group in groups if group.name == 'logwatch.recording'],
  },
  prometheusAlerts+:: {
    groups+: [
      group { rules: [linked(rule) for rule in group.rules] }
      for group in groups
      if group.name != 'logwatch.recording'
    ],
  },
}
