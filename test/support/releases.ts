// What a release changes in the package, and what it refuses: a tag that is not the version, a version without an entry
// in the changelog, and addresses that are still placeholders.

/** Input of {@link prepareRelease}: two files, the tag, and the `owner/name` of the repository that publishes. */
export interface ReleaseInput {
  readonly packageJson: string
  readonly changelog: string
  readonly tag: string
  readonly repository: string
}

/** A release: the package with its addresses, and its part of the changelog. Or the reasons against it. */
export type Release =
  | { readonly packageJson: string; readonly version: string; readonly notes: string }
  | { readonly problems: ReadonlyArray<string> }

/** Stands for the owner and the name of the repository in the addresses of `package.json`. */
const placeholder = "OWNER/hermes-effect"

/** The entry of a version, without its heading. */
const findNotes = (changelog: string, version: string): string =>
  changelog
    .split(/^## /m)
    .find((part) => part.split(/\s/, 1)[0]?.replaceAll(/[[\]]/g, "") === version)
    ?.replace(/^.*\n/, "")
    .trim() ?? ""

export const prepareRelease = ({ changelog, packageJson, repository, tag }: ReleaseInput): Release => {
  const { version }: { readonly version: string } = JSON.parse(packageJson)
  const notes = findNotes(changelog, version)
  const isRepository = /^[\w.-]+\/[\w.-]+$/.test(repository) && repository !== placeholder
  const problems = [
    ...(tag === `v${version}` ? [] : [`The tag is ${tag}, and package.json has version ${version}: tag v${version}.`]),
    ...(notes === "" ? [`.github/CHANGELOG.md has no entry "## ${version}": move "Unreleased" to it.`] : []),
    ...(isRepository ? [] : [`"${repository}" is no repository: give owner/name.`])
  ]
  return problems.length > 0
    ? { problems }
    : { version, notes, packageJson: packageJson.replaceAll(placeholder, repository) }
}
