// `node playTours.ts FILE…` runs modules one after another in one process, which ends when the last one leaves nothing
// open, and prints for each a line of JSON with what it wrote, to which stream, and the error that it ended with.
const [...files] = process.argv.slice(2)
const print = process.stdout.write.bind(process.stdout)

for (const file of files) {
  const told = { stdout: "", stderr: "" }
  const streams = ["stdout", "stderr"] as const
  const before = streams.map((name) => process[name].write)
  for (const name of streams) {
    process[name].write = (text: string | Uint8Array): boolean => {
      told[name] += typeof text === "string" ? text : Buffer.from(text).toString()
      return true
    }
  }
  try {
    await import(file)
  } catch (error) {
    told.stderr += String(error)
  } finally {
    streams.forEach((name, at) => (process[name].write = before[at] ?? process[name].write))
  }
  print(`${JSON.stringify({ file, ...told })}\n`)
}
