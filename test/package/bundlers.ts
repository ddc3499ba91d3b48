// Bundlers of servers: webpack, Next.js with both of its bundlers, and Vite. None of them is configured for the package.
import { spawn } from "node:child_process"
import { join } from "node:path"
import { loop, loopAnswer, models, offline } from "./programs.ts"
import { expect, holds, makeWorkspace, releases, runNode, type Workspace } from "./workspace.ts"

const writePrograms = ({ write }: Workspace): void => {
  write("offline.js", offline)
  write("models.js", models)
  write("loop.js", loop)
  write("server.js", `import { answer } from "./loop.js"\nconsole.log(await answer())\n`)
  write("page.js", `import { answer } from "./loop.js"\nglobalThis.answer = answer()\n`)
}

/** Webpack 5 bundles the loop for Node and for browsers without an error. */
export const checkWebpack = (): void => {
  const workspace = makeWorkspace("webpack", ["webpack@5", releases.openai])
  writePrograms(workspace)
  workspace.write(
    "build.js",
    `import webpack from "webpack"
for (const [target, entry] of [["node22", "./server.js"], [["web", "es2022"], "./page.js"]])
  await new Promise((resolve, reject) => webpack({
    mode: "production", optimization: { minimize: false }, target, entry, performance: { hints: false },
    output: { path: process.cwd() + "/out", filename: entry.slice(2), chunkFormat: "module", library: { type: "module" } },
    experiments: { outputModule: true }
  }, (error, stats) => {
    const { errors, warnings } = stats?.toJson({ all: false, errors: true, warnings: true }) ?? {}
    const others = warnings?.filter(({ message }) => !/Can't resolve/.test(message)) ?? []
    if (error || errors.length + others.length > 0) reject(error ?? new Error(JSON.stringify([...errors, ...others])))
    else resolve()
  }))
`
  )
  runNode(["build.js"], workspace.path)
  holds("webpack 5 bundles for Node and for browsers", true, "warnings name optional packages alone")
  expect("its bundle answers", runNode(["out/server.js"], workspace.path), `${loopAnswer}\n`)
}

/** Vite bundles the loop for browsers and for servers. */
export const checkVite = (): void => {
  const workspace = makeWorkspace("vite", ["vite@8", releases.openai])
  writePrograms(workspace)
  workspace.write("index.html", `<script type="module" src="/page.js"></script>`)
  const vite = join(workspace.modules, "vite/bin/vite.js")
  runNode([vite, "build", "--logLevel", "error"], workspace.path)
  workspace.write("vite.config.js", "export default { ssr: { noExternal: true } }\n")
  runNode([vite, "build", "--ssr", "server.js", "--outDir", "out", "--logLevel", "error"], workspace.path)
  expect("vite bundles for browsers and servers", runNode(["out/server.js"], workspace.path), `${loopAnswer}\n`)
}

/** Starts Next.js and asks its route, then stops it. */
const askNext = async (command: ReadonlyArray<string>, { modules, path }: Workspace): Promise<string> => {
  const server = spawn(process.execPath, [join(modules, "next/dist/bin/next"), ...command, "-p", "0"], {
    cwd: path,
    env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1" },
    stdio: ["ignore", "pipe", "inherit"]
  })
  try {
    const port = await new Promise<string>((resolve, reject) => {
      let output = ""
      server.once("exit", (code) => reject(new Error(`Next.js ended with ${code}: ${output}`)))
      server.stdout.on("data", (chunk: Buffer) => {
        output += chunk.toString()
        const [, found] = /localhost:(\d+)/.exec(output) ?? []
        if (found !== undefined && /Ready/.test(output)) resolve(found)
      })
    })
    const answer = await (await fetch(`http://127.0.0.1:${port}/api/ask`)).text()
    const question = { role: "user", id: "q", parts: [{ type: "text", text: "Reply exactly: chatted" }] }
    const body = JSON.stringify({ id: "chat", messages: [question] })
    const chat = await (await fetch(`http://127.0.0.1:${port}/api/chat`, { method: "POST", body })).text()
    const deltas = chat.matchAll(/"type":"text-delta"[^}]*"delta":"([^"]*)"/g)
    return `${answer} ${Array.from(deltas, ([, delta]) => delta).join("")}`
  } finally {
    const ended = new Promise((resolve) => server.once("exit", resolve))
    server.kill()
    await ended
  }
}

/** Next.js 16 answers from a route, and a chat of `useChat` from another, under Turbopack and webpack, in development and production. */
export const checkNext = async (): Promise<void> => {
  const workspace = makeWorkspace("next", ["next@16", "react@19", "react-dom@19", "ai@7", releases.openai])
  const { modules, path, write } = workspace
  writePrograms(workspace)
  write("next.config.mjs", "export default { turbopack: { root: import.meta.dirname } }\n")
  write("app/layout.jsx", "export default ({ children }) => <html><body>{children}</body></html>\n")
  write("app/page.jsx", "export default () => <p>page</p>\n")
  write(
    "app/api/ask/route.js",
    `import { answer } from "../../../loop.js"
export const dynamic = "force-dynamic"
export const GET = async () => new Response(await answer())
`
  )
  write(
    "app/api/chat/route.js",
    `import { convertToModelMessages, createUIMessageStreamResponse, streamText, toUIMessageStream } from "ai"
import { languageModel } from "hermes-effect/ai-sdk"
import { createHermes } from "hermes-effect/promise"
const model = languageModel(createHermes({ model: "offline" }))
export const POST = async (request) => {
  const { id, messages } = await request.json()
  const { stream } = streamText({
    model,
    messages: await convertToModelMessages(messages),
    providerOptions: { hermes: { sessionId: id } }
  })
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
}
`
  )
  const expected = `${loopAnswer} chatted`
  for (const bundler of ["--turbopack", "--webpack"]) {
    runNode([join(modules, "next/dist/bin/next"), "build", bundler], path)
    expect(`Next.js answers after a build ${bundler}`, await askNext(["start"], workspace), expected)
    expect(`Next.js answers in development ${bundler}`, await askNext(["dev", bundler], workspace), expected)
  }
}
