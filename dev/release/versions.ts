/** The places of the repository that name the version of a release, and what they disagree about. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { projectFolder } from '../progress.mjs'

export interface ReleaseTexts {
  readonly packageJson: string
  readonly chart: string
  readonly dockerfile: string
  readonly changelog: string
}

export function readReleaseTexts(): ReleaseTexts {
  const read = (path: string): string => readFileSync(join(projectFolder, path), 'utf8')
  return {
    packageJson: read('package.json'),
    chart: read('helm/Chart.yaml'),
    dockerfile: read('Dockerfile'),
    changelog: read('CHANGELOG.md'),
  }
}

/** What keeps this version from being released, one sentence each. */
export function versionProblems(
  version: string,
  { packageJson, chart, dockerfile, changelog }: ReleaseTexts,
): readonly string[] {
  const inPackage = (JSON.parse(packageJson) as { readonly version: string }).version // npm's format
  const inChart = parse(chart) as { readonly version: string; readonly appVersion: string } // helm's format
  const inDockerfile = /^ARG VERSION=(.*)$/m.exec(dockerfile)?.[1]
  const heading = changelog.split('\n').find((line) => line.startsWith(`## ${version} `))
  const differs = (place: string, found: string | undefined): readonly string[] =>
    found === version ? [] : [`${place} is ${found ?? 'missing'}, and the release is ${version}`]
  return [
    ...differs('version in package.json', inPackage),
    ...differs('version in helm/Chart.yaml', inChart.version),
    ...differs('appVersion in helm/Chart.yaml', inChart.appVersion),
    ...differs('VERSION in Dockerfile', inDockerfile),
    ...(heading === undefined ? [`CHANGELOG.md has no heading for ${version}`] : []),
    ...(heading !== undefined && !/\(\d{4}-\d{2}-\d{2}\)$/.test(heading)
      ? [`CHANGELOG.md has no date for ${version}: "## ${version} (YYYY-MM-DD)"`]
      : []),
  ]
}
