/** The style of the page. */
export const style = String.raw`
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2430;--dim:#66707f;--line:#dfe3e9;--hot:#eef4ff;
--agent:#7a869a;--user:#2f7d4f;--system:#98782a;--llm:#2b62c9;--tool:#8a3fb5;--approval:#c2622d;--mark:#9aa3b1;--bad:#c62f2f;--good:#2f7d4f}
@media(prefers-color-scheme:dark){:root{--bg:#14181f;--fg:#dde3ec;--dim:#8b95a5;--line:#2a313c;--hot:#1d2a42;
--agent:#7f8ba0;--user:#5db583;--system:#c9a64b;--llm:#6d9cf5;--tool:#bb7ee0;--approval:#e08a55;--mark:#667082;--bad:#ec6a6a;--good:#5db583}}
*{box-sizing:border-box}html,body{height:100%;margin:0}
body{display:flex;flex-direction:column;background:var(--bg);color:var(--fg);font:13px/1.45 system-ui,sans-serif}
header{padding:8px 14px;border-bottom:1px solid var(--line);display:flex;gap:14px;align-items:baseline;flex-wrap:wrap}
h1{font-size:15px;margin:0}#sums{color:var(--dim)}
button{font:inherit;color:inherit;background:none;border:1px solid var(--line);border-radius:5px;padding:2px 9px;cursor:pointer}
button[aria-pressed=true],button[aria-selected=true]{background:var(--hot);border-color:var(--llm)}
button:focus-visible,input:focus-visible,#list:focus-visible{outline:2px solid var(--llm);outline-offset:-1px}
#tools{padding:6px 14px;display:flex;gap:6px;align-items:center;flex-wrap:wrap;border-bottom:1px solid var(--line)}
#search{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:5px;padding:3px 8px;width:260px}
#count{color:var(--dim);margin-left:auto}
#map{height:64px;width:100%;display:block;border-bottom:1px solid var(--line);cursor:pointer;flex:none}
main{flex:1;display:flex;min-height:0}
#list{flex:3;overflow:auto;position:relative;min-width:0}
#detail{flex:2;overflow:auto;border-left:1px solid var(--line);padding:10px 14px;min-width:0}
#room{position:relative}
.row{position:absolute;left:0;right:0;height:24px;display:flex;align-items:center;gap:8px;padding:0 10px;white-space:nowrap;cursor:pointer;border-bottom:1px solid transparent}
.row:hover{background:var(--hot)}.row.on{background:var(--hot);border-bottom-color:var(--llm)}
.fold{width:14px;flex:none;color:var(--dim);text-align:center}
.kind{flex:none;width:8px;height:8px;border-radius:2px}
.name{flex:none;max-width:220px;overflow:hidden;text-overflow:ellipsis;font-weight:600}
.text{flex:1;overflow:hidden;text-overflow:ellipsis;color:var(--dim);min-width:40px}
.cost{flex:none;width:130px;text-align:right;color:var(--dim);font-variant-numeric:tabular-nums}
.time{flex:none;width:70px;text-align:right;color:var(--dim);font-variant-numeric:tabular-nums}
.track{flex:none;width:22%;height:10px;position:relative;background:linear-gradient(var(--line),var(--line)) 0 50%/100% 1px no-repeat}
.bar{position:absolute;top:1px;height:8px;border-radius:2px;min-width:2px}
.sign{flex:none;width:14px;text-align:center;font-weight:700}
.half{flex:1;overflow:hidden;text-overflow:ellipsis;min-width:0}
.bad{color:var(--bad)}.good{color:var(--good)}.changed .half{color:var(--system)}.removed .half{color:var(--bad)}.added .half{color:var(--good)}
#detail h2{font-size:14px;margin:0 0 4px}#detail h3{font-size:12px;margin:12px 0 3px;color:var(--dim)}
#detail dl{display:grid;grid-template-columns:auto 1fr;gap:1px 12px;margin:0}#detail dt{color:var(--dim)}#detail dd{margin:0}
pre{margin:0;padding:7px 9px;white-space:pre-wrap;overflow-wrap:anywhere;background:color-mix(in srgb,var(--line) 35%,transparent);border-radius:5px;font:12px/1.45 ui-monospace,monospace}
pre+pre{margin-top:4px}.sides{display:grid;grid-template-columns:1fr 1fr;gap:12px}
`
