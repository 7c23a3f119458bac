// Plays the official client against the gateway at argv[2] and prints what it saw as JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "unused", maxRetries: 0 });
const model = "sim";
const messages = [{ role: "user", content: "How is the weather in Berlin?" }];
const seen = {};

seen.models = (await client.models.list()).data.map((entry) => entry.id);

const chat = await client.chat.completions.create({ model, messages, max_tokens: 8 });
seen.chat = { tokens: chat.usage.completion_tokens, text: chat.choices[0].message.content };

let streamed = "";
let usageChunks = 0;
for await (const chunk of await client.chat.completions.create({ model, messages, max_tokens: 8, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
  usageChunks += chunk.usage ? 1 : 0;
}
seen.stream = { text: streamed, usageChunks };

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const called = [
  ...messages,
  { role: "assistant", content: null, tool_calls: [{ id: "1", type: "function", function: { name: "weather", arguments: "{}" } }] },
  { role: "tool", tool_call_id: "1", content: "sunny" },
];
seen.tools = (await client.chat.completions.create({ model, messages: called, tools, max_tokens: 4 })).usage.completion_tokens;

try {
  await client.chat.completions.create({ model: "nobody", messages });
} catch (error) {
  seen.error = { status: error.status, code: error.code, param: error.param };
}

const aborter = new AbortController();
const long = await client.chat.completions.create({ model, messages, max_tokens: 4000, stream: true }, { signal: aborter.signal });
let beforeAbort = 0;
try {
  for await (const _ of long) {
    beforeAbort += 1;
    if (beforeAbort === 3) aborter.abort();
  }
} catch (error) {
  if (error.name !== "AbortError" && !(error instanceof OpenAI.APIUserAbortError)) throw error;
}
seen.beforeAbort = beforeAbort;

console.log(JSON.stringify(seen));
