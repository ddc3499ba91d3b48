// `npm run bench:batch`: rows per second of `hermes batch run` beside a plain promise pool over the SDK, one process
// each, against one model server that answers after a time. `--rows N`, `--workers N`, `--delays 0,100,500`.
import OpenAI from "openai"
import { fork, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const option = (name: string, otherwise: string): string => {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? otherwise : (process.argv[at + 1] ?? otherwise)
}
const rows = Number(option("rows", "400"))
const workers = Number(option("workers", "16"))
const delays = option("delays", "0,100,500").split(",").map(Number)
const model = "loop-0"

const serve = (delay: number) =>
  new Promise<{ readonly url: string; readonly stop: () => void }>((resolve, reject) => {
    const server = fork(fileURLToPath(new URL("server.ts", import.meta.url)), {
      env: { ...process.env, BENCH_DELAY_MS: String(delay) }
    })
    server.once("message", (message: { port: number }) =>
      resolve({ url: `http://127.0.0.1:${message.port}/v1`, stop: () => server.kill() })
    )
    server.once("error", reject)
  })

/** Rows per second of so many promises that take the next row when they are free. */
const plain = async (url: string): Promise<number> => {
  const client = new OpenAI({ apiKey: "x", baseURL: url })
  const results: Array<string> = []
  let next = 0
  const started = performance.now()
  await Promise.all(
    Array.from({ length: workers }, async () => {
      while (next < rows) {
        const row = next++
        const answer = await client.chat.completions.create({
          model,
          messages: [
            { role: "system", content: "You are an agent." },
            { role: "user", content: `Question ${row}` }
          ]
        })
        results[row] = answer.choices[0]?.message.content ?? ""
      }
    })
  )
  return (rows / (performance.now() - started)) * 1000
}

/**
 * Rows per second behind the first ones, which load the code, as the rows themselves say; the pool is measured when it
 * is warm, too.
 */
const batch = (url: string): number => {
  const root = mkdtempSync(join(tmpdir(), "hermes-bench-"))
  const cwd = join(root, "work")
  mkdirSync(cwd)
  writeFileSync(
    join(cwd, "data.jsonl"),
    Array.from({ length: rows }, (_, row) => `${JSON.stringify({ prompt: `Question ${row}` })}\n`).join("")
  )
  const program = fileURLToPath(new URL("../../src/bin.js", import.meta.url))
  const flags = [
    "--dataset_file=data.jsonl",
    "--batch_size=1",
    "--run_name=bench",
    `--num_workers=${workers}`,
    "--distribution=terminal_only",
    "--keep-without-reasoning"
  ]
  const { status, stderr } = spawnSync(
    process.execPath,
    [program, "batch", "run", ...flags, "--provider", "custom", "--base-url", url, "--model", model],
    {
      cwd,
      env: {
        PATH: process.env["PATH"],
        HOME: root,
        HERMES_HOME: join(root, ".hermes"),
        HERMES_TERMINAL__BACKEND: "local",
        HERMES_MODEL__API_KEY: "x",
        HERMES_MODEL__CONTEXT_LENGTH: "128000"
      },
      encoding: "utf8"
    }
  )
  if (status !== 0) throw new Error(stderr)
  const directory = join(cwd, "data/bench")
  const times = readdirSync(directory)
    .filter((name) => name.startsWith("batch_"))
    .map((name) => Date.parse(JSON.parse(readFileSync(join(directory, name), "utf8")).metadata.timestamp))
    .toSorted((a, b) => a - b)
  rmSync(root, { recursive: true })
  const warm = 2 * workers
  return ((rows - warm) / ((times.at(-1) ?? 0) - (times[warm - 1] ?? 0))) * 1000
}

process.stdout.write(`${rows} rows, ${workers} workers, one model call each\n`)
for (const delay of delays) {
  const { stop, url } = await serve(delay)
  try {
    await plain(url)
    const base = await plain(url)
    const ours = batch(url)
    process.stdout.write(
      `answers after ${delay} ms: SDK pool ${base.toFixed(1)} rows/s, hermes batch ${ours.toFixed(1)} rows/s, ratio ${(ours / base).toFixed(2)}\n`
    )
  } finally {
    stop()
  }
}
