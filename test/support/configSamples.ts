// Texts of config.yaml: those that the documentation shows, and every literal of the tests that has settings in it.
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { getRootShape } from "../../src/base/config/internal/SettingsShape.ts"
import { root } from "./sources.ts"

const filesBelow = (folder: string, ending: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(ending) && !path.includes("node_modules"))
    .map((path) => join(folder, path))

const blocks = (text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(/^([ \t]*(?:\* )?)```ya?ml\n([\s\S]*?)^\1?```/gm), ([, indent = "", yaml = ""]) =>
    yaml
      .split("\n")
      .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line.trimStart() === "*" ? "" : line))
      .join("\n")
  )

/** Texts of literals in double quotes, and of templates without anything computed. */
const literals = (text: string): ReadonlyArray<string> => [
  ...Array.from(text.matchAll(/"(?:[^"\\\n]|\\.)*"/g), ([literal]) => {
    try {
      return String(JSON.parse(literal))
    } catch {
      return ""
    }
  }),
  ...Array.from(text.matchAll(/`([^`\\$]*)`/g), ([, literal = ""]) => literal)
]

const settingKeys = Array.from(getRootShape()._tag === "Section" ? getRootShape().fields.keys() : [])
const begins = new RegExp(`^\\s*(?:#[^\\n]*\\n)*(?:${settingKeys.join("|")}):`, "u")

/** All texts, each once, with the file that has it. */
export const configSamples = (): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  for (const path of [
    "README.md",
    ...filesBelow("scratchpad", ".md"),
    ...filesBelow("src", ".md"),
    ...filesBelow("src", ".ts")
  ]) {
    for (const yaml of blocks(readFileSync(join(root, path), "utf8"))) if (begins.test(yaml)) found.set(yaml, path)
  }
  for (const path of filesBelow("test", ".ts")) {
    for (const yaml of literals(readFileSync(join(root, path), "utf8"))) if (begins.test(yaml)) found.set(yaml, path)
  }
  return found
}
