// The bundle of the package's entries: its options, and the modules that the loop of an agent is made of.
import { join } from "node:path"
import { type InputOptions, rolldown } from "rolldown"
import { pureCalls } from "./pureCalls.ts"
import { root, src } from "./sources.ts"

/** Options of the bundle: `effect` and all other packages stay imports. */
export const options: InputOptions = {
  cwd: root,
  platform: "node",
  tsconfig: false,
  experimental: { nativeMagicString: true },
  checks: { bundlerTimings: false },
  plugins: [pureCalls(src)],
  external: (id) => !id.startsWith(".") && !id.startsWith("/"),
  // The root exports many parts by name that other parts load when they use them.
  onLog: (level, log, handle) => {
    if (log.code !== "INEFFECTIVE_DYNAMIC_IMPORT") handle(level, log)
  }
}

/** Files that a bundle of `hermes-effect/agent` has to hold before anything runs; what is loaded when it is used is not among them. */
export const loopModules = async (): Promise<ReadonlySet<string>> => {
  const bundle = await rolldown({ ...options, input: { agent: join(src, "entry/agent.ts") } })
  const { output } = await bundle.generate({ format: "esm" })
  await bundle.close()
  const chunks = new Map(output.flatMap((part) => part.type === "chunk" ? [[part.fileName, part] as const] : []))
  const found = new Set<string>()
  const visit = (fileName: string): void => {
    const chunk = chunks.get(fileName)
    if (chunk === undefined) return
    chunks.delete(fileName)
    for (const [id, { renderedLength }] of Object.entries(chunk.modules)) if (renderedLength > 0) found.add(id)
    for (const imported of chunk.imports) visit(imported)
  }
  for (const { fileName, isEntry } of chunks.values()) if (isEntry) visit(fileName)
  return found
}
