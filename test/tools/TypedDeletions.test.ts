// Text that is typed into a process in the background: judged as it is sent, as the process reads it, and as code.
import { assert, describe, it } from "@effect/vitest"
import * as TypedDeletions from "../../src/tools/builtin/terminal/TypedDeletions.ts"

const keysOf = (text: string, command = "bash", unfinished = ""): string =>
  TypedDeletions.findConcerns(unfinished, text, command)
    .map(({ key }) => key)
    .join("\n")

describe("line editing", () => {
  it("is applied before the text is judged", () => {
    for (const text of [
      "echo \x15rm -rf dir\n",
      "r\x7frm a.txt\n",
      "eco\x7f\x7f\x7frm -rf d\n",
      "eco\b\b\brm -rf d\n",
      "x\x03rm -rf d\n",
      "echo hi\x17\x17 rm a\n",
      "\x1b[200~rm d\x1b[201~\n"
    ])
      assert.match(keysOf(text), /delete/, JSON.stringify(text))
    assert.match(keysOf("\x7f\x7frm a\n", "bash", "ec"), /delete/, "behind a piece")
  })

  it("that is not known is asked about", () => {
    for (const text of ["dir -rf\x01rm \n", "a\x1b[D\n", "a\x19b\n"]) {
      assert.match(keysOf(text), /control characters/, JSON.stringify(text))
    }
  })

  it("raises no question by itself", () => {
    for (const text of ["\x03", "\x04", "\x1b[A", "lx\x7fs\n", "ls\n", "a\tb\n", "\x1b[200~ls\x1b[201~\r\n"]) {
      assert.strictEqual(keysOf(text), "", JSON.stringify(text))
    }
  })
})

describe("code", () => {
  it("that deletes is asked about", () => {
    const typed: ReadonlyArray<readonly [command: string, text: string]> = [
      ["python3", "import shutil\nshutil.rmtree('d')\n"],
      ["python3 -i", "os.remove('a')\n"],
      ["python3", "shutil.rmtree(where)\n"],
      ["python3", "os.system('rm -rf d')\n"],
      ["python3", "pathlib.Path('a').unlink()\n"],
      ["node", "require('fs').rmSync('d', { recursive: true })\n"],
      ["node", 'fs.unlinkSync("a")\n'],
      ["irb", "FileUtils.rm_rf 'd'\n"],
      ["sqlite3 a.db", ".system rm -rf d\n"],
      ["sqlite3 a.db", "drop table users;\n"],
      ["psql shop", "\\! rm a\n"],
      ["psql shop", "delete from users;\n"],
      ["mysql shop", "system rm -rf d\n"],
      ["ipython", "!rm -rf d\n"],
      ["ipython", "%sx rm -rf d\n"]
    ]
    for (const [command, text] of typed) assert.notStrictEqual(keysOf(text, command), "", `${command}: ${text}`)
    assert.notStrictEqual(keysOf("ove('a')\n", "python3", "os.rem"), "", "behind a piece")
  })

  it("that deletes nothing is not asked about", () => {
    const typed: ReadonlyArray<readonly [command: string, text: string]> = [
      ["python3", "print('it''s')\nitems.remove(x)\n"],
      ["node", "require('fs').readFileSync('d')\n"],
      ["sqlite3 a.db", "select * from users;\n.tables\n"],
      ["psql shop", "\\! ls\n"],
      ["ipython", "!ls -la\n"],
      ["./setup.sh", "y\n"]
    ]
    for (const [command, text] of typed) assert.strictEqual(keysOf(text, command), "", `${command}: ${text}`)
  })
})
