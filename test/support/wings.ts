// The folders of `src`: wings, the rooms in them, and who may import whom.
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { src } from "./sources.ts"

/** Wings, the folders of `src` from the bottom up, each with the wings that it imports. */
export const wings: Readonly<Record<string, ReadonlyArray<string>>> = {
  base: [],
  store: ["base"],
  places: ["base"],
  hooks: ["base"],
  middleware: ["base"],
  models: ["base", "hooks", "middleware"],
  tools: ["base", "store", "places", "hooks", "middleware", "models"],
  agent: ["base", "store", "hooks", "middleware", "models", "tools"],
  observe: ["base", "store", "hooks", "middleware", "agent"],
  serve: ["base", "store", "hooks", "models", "tools", "agent"],
  research: ["base", "store", "places", "middleware", "models", "tools", "agent", "observe"],
  program: [
    "base",
    "store",
    "places",
    "hooks",
    "middleware",
    "models",
    "tools",
    "agent",
    "observe",
    "serve",
    "research"
  ],
  kit: [
    "base",
    "store",
    "places",
    "hooks",
    "middleware",
    "models",
    "tools",
    "agent",
    "observe",
    "serve",
    "research",
    "program"
  ]
}

/** The wing of a module; `undefined` for the modules of `src` itself. */
export const findWing = (path: string): string | undefined =>
  path.includes("/") ? path.slice(0, path.indexOf("/")) : undefined

/** The modules of a wing that others may import, as the section "Door" of its README lists them. */
export const readDoor = (
  wing: string
): { readonly has: (path: string) => boolean; readonly modules: ReadonlyArray<string> } => {
  const [, section = ""] =
    /\n## Door\n([\s\S]*?)(?:\n## |$)/.exec(readFileSync(join(src, wing, "README.md"), "utf8")) ?? []
  const lines = section.split("\n").filter((line) => line.startsWith("- "))
  const list = (isClosed: boolean) =>
    lines
      .filter((line) => line.startsWith("- not ") === isClosed)
      .flatMap((line) => Array.from(line.matchAll(/`([^`]+)`/g), ([, name = ""]) => `${wing}/${name}.ts`))
  const modules = list(false)
  const closed = list(true)
  const isListed = (path: string): boolean =>
    modules.includes(path) || modules.includes(`${path.slice(0, path.lastIndexOf("/"))}/*.ts`)
  return {
    has: (path) => isListed(path) && !closed.includes(path),
    modules: modules.filter((path) => !path.endsWith("/*.ts"))
  }
}

/** Rooms of `src`, each with the rooms that it may import besides itself and Effect. */
export const below: Record<string, ReadonlyArray<string>> = {
  "base/domain": [],
  "base/platform": ["base/domain"],
  "base/config": ["base/domain", "base/platform"],
  places: ["base/domain", "base/platform", "base/config"],
  "models/provider": ["base/domain", "base/platform"],
  store: ["base/domain", "base/platform"],
  hooks: ["base/domain", "base/platform", "base/config", "places"],
  middleware: ["base/domain", "base/platform", "hooks"],
  "models/routing": ["base/domain", "base/platform", "base/config", "models/provider", "hooks", "middleware"],
  "tools/prompt": ["base/domain", "base/config", "store", "models/routing"],
  tools: [
    "base/domain",
    "base/platform",
    "base/config",
    "store",
    "places",
    "hooks",
    "middleware",
    "models/routing",
    "tools/prompt"
  ],
  agent: [
    "base/domain",
    "base/platform",
    "base/config",
    "models/provider",
    "store",
    "places",
    "hooks",
    "middleware",
    "models/routing",
    "tools/prompt",
    "tools"
  ],
  "agent/builtin": [
    "base/domain",
    "base/platform",
    "base/config",
    "models/provider",
    "store",
    "places",
    "hooks",
    "middleware",
    "models/routing",
    "tools/prompt",
    "tools"
  ],
  "agent/plugin": [
    "base/domain",
    "base/platform",
    "base/config",
    "models/provider",
    "hooks",
    "middleware",
    "models/routing",
    "tools"
  ],
  observe: ["base/domain", "base/platform", "base/config", "store", "hooks", "middleware", "agent/plugin"]
}
const upToAgent = Object.keys(below)
below["serve/host"] = upToAgent.filter((room) => room !== "observe" && room !== "agent/builtin")
below["research"] = [...upToAgent, "serve/host"]
below["serve/cluster"] = [...upToAgent, "serve/host"]
below["serve/server"] = [...upToAgent, "serve/host"]
// Of `program`, the commands know the type `ProgramStart` alone: the entry provides the runtime.
below["program/cli"] = [...upToAgent, "serve/host", "research", "serve/cluster", "serve/server", "program"]
// `program` is `Runtime.ts` and its parts.
below["kit/testing"] = [...upToAgent, "program", "serve/host", "serve/server"]
below["kit/promise"] = [...upToAgent, "serve/host", "serve/server", "program"]
below["kit/entry"] = [
  ...upToAgent,
  "program",
  "serve/host",
  "research",
  "serve/cluster",
  "serve/server",
  "kit/testing",
  "kit/promise"
]
below["program"] = Object.keys(below).filter((room) => !/^(?:kit|program)\//.test(room))

/** The room of a module: the innermost folder that is one. */
export const roomOf = (path: string): string => {
  const folders = path.split("/").slice(0, -1)
  while (folders.length > 0 && !Object.hasOwn(below, folders.join("/"))) folders.pop()
  return folders.join("/")
}
