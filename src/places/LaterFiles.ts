/**
 * Names of files from which programs of the user later run commands without asking: a shell that enters a directory, an
 * editor, git, a package manager, another agent. One table for the sandbox, the file tools and the judge of commands.
 * Pure.
 *
 * **Gotchas**
 *
 * Files that only the build of the project runs (`package.json`, `Makefile`) are not included: changing them is the
 * task of a coding agent.
 */

/** Directories of settings and hooks whose whole content is protected. */
const wholeDirectories = [".cursor", ".devcontainer", ".githooks", ".hermes", ".husky", ".idea", ".vscode", ".zed"]

/** Directories of other agents in which some files are protected. */
const agentDirectories = [".claude", ".codex", ".gemini"]

const files = [
  ".devcontainer.json",
  ".envrc",
  ".exrc",
  ".gitmodules",
  ".lefthook.yaml",
  ".lefthook.yml",
  ".mcp.json",
  ".mise.toml",
  ".npmrc",
  ".nvim.lua",
  ".nvimrc",
  ".pnpmfile.cjs",
  ".pre-commit-config.yaml",
  ".vimrc",
  ".yarnrc",
  ".yarnrc.yml",
  "lefthook-local.yaml",
  "lefthook-local.yml",
  "lefthook.yaml",
  "lefthook.yml",
  "mise.toml"
]

const names: ReadonlySet<string> = new Set([...wholeDirectories, ...files])
const agentNames: ReadonlySet<string> = new Set(agentDirectories)
const agentFile = /^(?:settings|hooks|mcp|config)/

/** Suffix of the name of a file that was set aside. */
export const asideSuffix = ".set-aside"
const isAside = /\.set-aside(?:-\d+)?$/

/** Returns true for a directory of another agent, in which only some files are protected. */
export const isAgentDirectory = (name: string): boolean => agentNames.has(name.toLowerCase())

/** Returns true if a name in a directory is a file or directory from which a program later runs commands. */
export const isLaterName = (name: string, directory: string): boolean =>
  names.has(name.toLowerCase()) ||
  (isAgentDirectory(directory) && agentFile.test(name.toLowerCase()) && !isAside.test(name))

/** Returns true if a path is such a file or directory or is below one. */
export const isLaterPath = (path: string): boolean => {
  const parts = path.split("/")
  return parts.some((name, at) => isLaterName(name, parts[at - 1] ?? ""))
}

/** Returns true for an environment file that contains secrets. A template for such a file does not contain secrets. */
export const isEnvironmentFile = (name: string): boolean =>
  /^\.env(?:\.|$)/.test(name) && !/\.(?:example|sample|template|dist|defaults)$/.test(name)
