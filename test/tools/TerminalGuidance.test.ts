import { assert, describe, it } from "@effect/vitest"
import * as Guidance from "../../src/tools/builtin/terminal/Guidance.ts"

describe("ShellCommands", () => {
  const show = ({ depth, terminator, words }: Guidance.SimpleCommand): string =>
    `${"$".repeat(depth)}[${words.join("|")}]${terminator}`

  const table: ReadonlyArray<readonly [command: string, expected: string]> = [
    ["", ""],
    ["a b; c", "[a|b]; [c]"],
    ["a 'b; c' \"d & e\" f\\ g", "[a|b; c|d & e|f g]"],
    ["a && b || c | d |& e", "[a]&& [b]|| [c]| [d]| [e]"],
    ["a & b", "[a]& [b]"],
    ["a &> log 2>&1 >> x < y >&2 b", "[a|b]"],
    ["a 2>/dev/null >&- b", "[a|b]"],
    ["a # b & c\nd", "[a]; [d]"],
    ["a#b", "[a#b]"],
    ["cat <<'EOF' > f\nserver &\nEOF\nb", "[cat]; [b]"],
    ["cat <<-EOF\n\tx &\n\tEOF\nb", "[cat]; [b]"],
    ["cat <<< 'a & b'", "[cat]"],
    ["(a; b) &", "[a]; [b]; []&"],
    ["echo $(a | b) c", "$[a]| $[b]; [echo|$|c]"],
    ['echo "$(a ")") x" & b', "[echo|$ x]& [b]"],
    ["echo $((1 & 2)) `x & y` z", "$[x]& $[y]; [echo|$|$|z]"],
    ["((x & y)) && a", "[a]"],
    ["diff <(a) <(b) c", "$[a]; $[b]; [diff|c]"],
    ["a \\\n b", "[a|b]"],
    ["a 'unclosed & b", "[a|]"]
  ]
  for (const [command, expected] of table) {
    it(`reads ${JSON.stringify(command)}`, () => {
      assert.strictEqual(Guidance.parse(command).map(show).join(" "), expected)
    })
  }

  it("reads text that nests deeper than any command", () => {
    for (const unit of ["(", "$(", "`", '"$(', "<(", "${x:-", "$(case a in a) "]) {
      assert.isArray(Guidance.parse(unit.repeat(20_000)), unit)
    }
  })

  it("never fails and always ends, whatever the text", () => {
    const parts = ["'", '"', "`", "$(", "(", ")", "((", "<<", "<(", "&", ">", "\\", "\n", "#", "a", " ", ";", "|"]
    let seed = 1
    const next = (count: number): number => {
      seed = (seed * 48_271) % 0x7fffffff
      return seed % count
    }
    for (let round = 0; round < 3000; round++) {
      const text = Array.from({ length: next(14) }, () => parts[next(parts.length)]).join("")
      assert.isArray(Guidance.parse(text), JSON.stringify(text))
    }
  })
})

describe("Guidance", () => {
  const foreground = (command: string) => Guidance.refuseForeground(Guidance.parse(command))
  const background = (command: string) => Guidance.refuseBackground(Guidance.parse(command))

  for (const command of [
    "sleep 100 &",
    "sleep 1 & echo started",
    "(cd x && make) &",
    "nohup make",
    "cd x && setsid ./server",
    "sudo -n nohup x",
    "FOO=1 nohup x",
    "/usr/bin/nohup x",
    "x > log 2>&1 &",
    "pid=$(sleep 5 & echo $!)",
    "npm run dev",
    "npm start",
    "npm --prefix web run dev",
    "pnpm dev",
    "yarn serve",
    "bun run watch",
    "cd app && npm run dev | tee log",
    "npx vite",
    "npx vite --port 3000",
    "npm run --silent dev",
    "npx --yes next dev",
    "pnpm exec vite --port 3000",
    "vite",
    "next dev -p 3001",
    "ng serve",
    "nodemon app.js",
    "uvicorn app:app --reload",
    "gunicorn app:app",
    "python -m http.server 8000",
    "python3.12 -m http.server",
    "python manage.py runserver",
    "flask --app x run -h 0.0.0.0",
    "php -S localhost:8000",
    "docker compose up",
    "docker-compose up --build"
  ]) {
    it(`does not run in the foreground: ${command}`, () => {
      assert.include(foreground(command) ?? "", "background=true")
    })
  }

  for (const command of [
    "echo 'run nohup x & wait'",
    'git commit -m "start server & npm run dev"',
    "grep nohup file",
    "man setsid",
    "nohup --version",
    "setsid --help",
    "a && b || c",
    "make 2>&1 | tail -5",
    "make &> log",
    "make |& tee log",
    "cat > run.sh <<'EOF'\nnohup server &\nEOF",
    "echo $((5 & 3))",
    "npm run build",
    "npm run dev:build",
    "npm test",
    "npm install nodemon",
    "npm run dev -- --help",
    "npx vite build",
    "vite --version",
    "vite build",
    "next build",
    "timeout 5 npm run dev",
    "docker compose up -d",
    "docker compose down",
    "python script.py",
    "python -m pytest",
    "flask db upgrade",
    "which vite uvicorn"
  ]) {
    it(`runs in the foreground: ${JSON.stringify(command)}`, () => {
      assert.isUndefined(foreground(command))
    })
  }

  it("a background command stays in its shell's foreground", () => {
    for (const command of ["server &", "nohup server > log 2>&1 &", "setsid server", "(a; b) &"]) {
      assert.include(background(command) ?? "", "leave out", command)
    }
    for (const command of ["npm run dev", "db & server", "echo 'x &'", "a 2>&1"]) {
      assert.isUndefined(background(command), command)
    }
  })
})

describe("ExitMeaning", () => {
  const of = (command: string, code: number) =>
    Guidance.explainExit(Guidance.parse(command), { code, signal: undefined })

  for (const [command, code] of [
    ["grep x f", 1],
    ["cat f | grep x", 1],
    ["cd a; /usr/bin/egrep x f", 1],
    ["git grep x", 1],
    ["LC_ALL=C rg x", 1],
    ["grep x $(ls)", 1],
    ["diff a b", 1],
    ["find / -name x", 1],
    ["test -e x", 1],
    ["[ -e x ]", 1],
    ["git diff --exit-code", 1],
    ["sudo git diff --quiet", 1],
    ["curl https://nowhere.invalid", 6],
    ["curl localhost:1", 7],
    ["curl -f x", 22],
    ["curl -m 1 x", 28]
  ] as const) {
    it(`explains ${command} with exit code ${code}`, () => {
      assert.isString(of(command, code))
    })
  }

  it("says nothing where the number says all", () => {
    for (const [command, code] of [
      ["grep x f", 0],
      ["grep x f", 2],
      ["make", 1],
      ["curl x", 1],
      ["grep x f; make", 1],
      ["echo $(grep x f)", 1],
      ["constructor", 1],
      // The code may be that of `cd` or of the test.
      ["cd a && grep x f", 1],
      ["npm test && diff a b", 1],
      ["! grep x f", 1],
      ["git push", 1],
      ["git diff", 1],
      ["git commit -m x", 1],
      ["", 1]
    ] as const) {
      assert.isUndefined(of(command, code), `${command} ${code}`)
    }
  })

  it("names the signal that ended a command", () => {
    assert.include(Guidance.explainExit([], { code: 139, signal: "SIGSEGV" }) ?? "", "SIGSEGV")
  })
})
