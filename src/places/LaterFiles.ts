/**
 * Names of files from which programs of the user later run commands without asking: a shell that enters a directory, an
 * editor, git, a package manager, another agent. One table for the sandbox, the file tools and the judge of commands.
 * Pure.
 *
 * **Gotchas**
 *
 * Files that only the build of the project runs (`package.json`, `Makefile`) are not among them: changing those is the
 * task of a coding agent.
 */

/** Directories of settings and hooks that count whole. */
const wholeDirectories = [".cursor", ".devcontainer", ".githooks", ".hermes", ".husky", ".idea", ".vscode", ".zed"]

/** Directories of other agents, of which some files count. */
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

/** End of the name of a file that was set aside. */
export const asideSuffix = ".set-aside"
const isAside = /\.set-aside(?:-\d+)?$/

/** True for a directory of another agent, of which only some files count. */
export const isAgentDirectory = (name: string): boolean => agentNames.has(name.toLowerCase())

/** True when a name in a directory is a file or a directory from which something runs later. */
export const isLaterName = (name: string, directory: string): boolean =>
  names.has(name.toLowerCase()) ||
  (isAgentDirectory(directory) && agentFile.test(name.toLowerCase()) && !isAside.test(name))

/** True when a path lies at or below such a file or directory. */
export const isLaterPath = (path: string): boolean => {
  const parts = path.split("/")
  return parts.some((name, at) => isLaterName(name, parts[at - 1] ?? ""))
}

/** True for a file of variables that holds secrets; a template for one holds none. */
export const isEnvironmentFile = (name: string): boolean =>
  /^\.env(?:\.|$)/.test(name) && !/\.(?:example|sample|template|dist|defaults)$/.test(name)
