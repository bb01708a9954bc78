/* commands.c: the table of commands; see options.h. What they do is in cmd_<name>.c. */
#include "cli/options.h"

const struct ls_command ls__commands[LS_N_CMDS] = {
    [LS_CMD_TRAIN] =
        {
            .name = "train",
            .args = "MODEL DATA | --resume RUN | --server ADDRESS",
            .min_args = 2,
            .max_args = 2,
            .summary = "train a model on a data set",
            .text = "Trains MODEL (a name from `lockstep models`, or a .net file) on DATA (a name from `lockstep data "
                    "list`, folder:PATH, or fake:CxHxW:CLASSES:N). The weights depend on the model, the data, the seed "
                    "and the global batch, never on the number of threads, and an interrupted run that is resumed ends "
                    "with the same bits.\n"
                    "Everything the run leaves goes into one run directory: manifest.json, metrics.jsonl, checkpoints/ "
                    "and result.json. The summary (or with --json the result object) goes to stdout, progress to "
                    "stderr. Ctrl-C finishes the step, writes a checkpoint and exits with 75; a second Ctrl-C exits at "
                    "once.",
            .examples =
                {
                    {"lockstep train lenet5 digits", "needs nothing: the digits are drawn by the program"},
                    {"lockstep train resnet18 cifar10 -b 256 --epochs 30 --lr 0.1 --wd 5e-4 --crop-pad 4 --flip",
                     "a usual recipe"},
                    {"lockstep train --resume runs/a", "go on where runs/a stopped, with its own options"},
                    {"lockstep train lenet5 mnist --run runs/a --resume auto", "the same, or start"},
                    {"lockstep train lenet5 mnist -i 100 --json", "100 steps, the result as JSON on stdout"},
                    {"lockstep train lenet5 mnist -w 4 --sync ps", "4 workers of a parameter server, any may die"},
                },
        },
    [LS_CMD_EVAL] =
        {
            .name = "eval",
            .args = "RUN|CHECKPOINT [DATA]",
            .min_args = 1,
            .max_args = 2,
            .summary = "measure loss and accuracy of a trained model",
            .text =
                "Evaluates the best (else the newest) checkpoint of a run directory, or a checkpoint file, on every "
                "test sample exactly once. Without DATA it takes the data set of the run. The answers are the same "
                "for any number of threads.",
            .examples =
                {
                    {"lockstep eval runs/a", "the run's own test data"},
                    {"lockstep eval runs/a --per-class --confusion matrix.png", "where it errs, and as a picture"},
                    {"lockstep eval runs/a --top 5 -o predictions.csv", "and what it says of every image"},
                    {"lockstep eval runs/a/checkpoints/best.safetensors mnist --json", "one file, as JSON"},
                },
        },
    [LS_CMD_CLASSIFY] =
        {
            .name = "classify",
            .args = "RUN|CHECKPOINT IMAGE...|FOLDER",
            .min_args = 2,
            .max_args = LS_ANY_ARGS,
            .summary = "tell what pictures show, by a trained model",
            .text = "Reads PNG and JPEG files, and all of them in a FOLDER and below, as the run read its data: scaled "
                    "until the shorter side fits, cut to the centre, turned to grey for a network of one channel, "
                    "normalized. For each it tells the most likely class and how likely that is.\n"
                    "A file that cannot be read is named on stderr, the others go on, and the exit code is 3.",
            .examples =
                {
                    {"lockstep classify runs/a cat.jpg", "one picture"},
                    {"lockstep classify runs/a photos --top 3", "a folder, three guesses each"},
                    {"lockstep classify runs/a photos --csv answers.csv", "for a spreadsheet"},
                },
        },
    [LS_CMD_EXPORT] =
        {
            .name = "export",
            .args = "RUN|CHECKPOINT",
            .min_args = 1,
            .max_args = 1,
            .summary = "write a trained model for other programs",
            .text = "Takes the best (else the newest) checkpoint of a run directory, or a checkpoint file, and writes "
                    "the network as ONNX for onnxruntime and others, or its tensors as safetensors for PyTorch. ONNX "
                    "takes any number of images at once and gives logits; class names, mean and deviation are in its "
                    "metadata. A file that is there is left alone unless --force is given.",
            .examples =
                {
                    {"lockstep export runs/a --onnx model.onnx", "as it was trained"},
                    {"lockstep export runs/a --onnx model.onnx --fold --pixels bytes",
                     "faster, and takes pixels as they are"},
                    {"lockstep export runs/a --safetensors model.safetensors", "for load_state_dict"},
                },
        },
    [LS_CMD_BENCH] =
        {
            .name = "bench",
            .args = "MODEL [DATA]",
            .min_args = 1,
            .max_args = 2,
            .summary = "measure the speed and memory of training steps",
            .text = "Runs whole training steps (forward, backward, update) on random images held in memory and tells "
                    "milliseconds per step, images per second, the share of the machine's peak and the memory. DATA, a "
                    "fake:CxHxW:CLASSES:N spec, sets another image size.",
            .examples =
                {
                    {"lockstep bench resnet18", "global batch of 128"},
                    {"lockstep bench vgg16 -b 32 --threads 1 --json", "one core, as JSON"},
                    {"lockstep bench softmax fake:1x28x28:10:1024 -b 512", "given image size"},
                },
        },
    [LS_CMD_PLAN] =
        {
            .name = "plan",
            .args = "MODEL",
            .min_args = 1,
            .max_args = 1,
            .summary = "show how a model will be computed",
            .text = "Prints the plan of a training step: order, chosen kernel for each node and why others were "
                    "refused, layouts and memory. Nothing is trained.",
            .examples =
                {
                    {"lockstep plan lenet5", "for a global batch of 128"},
                    {"lockstep plan resnet18 -b 32 --device ref", "another batch, the reference backend"},
                },
        },
    [LS_CMD_TUNE] =
        {
            .name = "tune",
            .args = "MODEL [DATA]",
            .min_args = 1,
            .max_args = 2,
            .summary = "measure which kernel is best for each layer, and write a table",
            .text = "Tries every kernel for every layer of MODEL at the given batch, forward and backward, measures "
                    "whole training steps (CPU time, random images in memory) and keeps what wins. The table names "
                    "only what the rules would choose otherwise; it is used with --tune FILE by train, eval, bench "
                    "and plan. Nothing is measured when a model is trained, so two runs with one table choose alike "
                    "and their bits are the same.\n"
                    "Tables for common machines are part of the program. A table is for one instruction set and one "
                    "version of the library. DATA, a fake:CxHxW:CLASSES:N spec, sets another image size.",
            .examples =
                {
                    {"lockstep tune lenet5 -o my.tune", "global batch of 128"},
                    {"lockstep tune resnet18 -b 64 -o my.tune", "more lines for the same table"},
                    {"lockstep tune softmax fake:1x28x28:10:1024 --json", "given image size, as JSON"},
                },
        },
    [LS_CMD_PREDICT] =
        {
            .name = "predict",
            .args = "MODEL [DATA]",
            .min_args = 1,
            .max_args = 2,
            .summary = "tell how long a step would take on 1 to 1024 workers",
            .text =
                "Measures training steps on this machine (random images in memory), then plays a step through for 1 "
                "to 1024 workers over a network: all-reduce as Lockstep does it (in full), as a plain ring and a tree, "
                "and "
                "parameter servers; with --sync ps, async, ssp:K or local:H those in full. Tells step time, speed-up, "
                "the "
                "shares of computing, exposed "
                "communication and waiting, and where more workers stop paying. Without a network it tells common "
                "ones side by side. A worker is a process with --threads threads; machines are as this one.\n"
                "--hosts measures the network between machines for two seconds; inside a job that is already there, "
                "--probe "
                "does.",
            .examples =
                {
                    {"lockstep predict resnet18", "over common networks"},
                    {"lockstep predict alexnet --bandwidth 1Gbit --latency 0.1ms -o alexnet.svg",
                     "one network, and the plot"},
                    {"lockstep predict resnet18 --hosts a,b", "over the network between two machines, measured"},
                    {"lockstep predict resnet18 -b 512 --network 10GbE --procs-per-node 2 --sync ps --servers 4 --json",
                     "two workers per machine, four parameter servers, as JSON"},
                },
        },
    [LS_CMD_MODELS] =
        {
            .name = "models",
            .args = "[MODEL]",
            .min_args = 0,
            .max_args = 1,
            .summary = "list the models of the program, or the layers of one",
            .text = "A table of the models: parameters, GFLOP of the forward pass per image, memory of the activations "
                    "per image, input. With MODEL (a name or a .net file) its layers: result, parameters, operations "
                    "and memory of each, the totals, and the image sizes it takes. Operations and memory are those of "
                    "one image, or of --batch-size of them.",
            .examples =
                {
                    {"lockstep models", "all of them"},
                    {"lockstep models resnet18", "its layers, and what they cost"},
                    {"lockstep models mobilenetv2 --input 3x96x96 -b 32", "for smaller images, 32 at a time"},
                    {"lockstep models my.net --classes 100", "a file of your own"},
                },
        },
    [LS_CMD_DATA] =
        {
            .name = "data",
            .args = "list | fetch NAME | info SPEC | check SPEC",
            .min_args = 1,
            .max_args = 2,
            .summary = "list, download and check data sets",
            .text = "list: the known sets and where they were found. fetch: download with checksum; an interrupted "
                    "download is continued. info: sizes, classes and checksums of both splits; with -o also a contact "
                    "sheet, "
                    "samples of every class in a picture (.png, .svg or .pdf), and with options of augmentation "
                    "beside them the same samples as training sees them. check: every file "
                    "against its published checksum, every label against its range.\n"
                    "Sets are searched in --data-dir, $LOCKSTEP_DATA, the cache folder ($XDG_CACHE_HOME or ~/.cache, "
                    "lockstep/datasets) and the distribution's place; names and layout of the files are torchvision's.",
            .examples =
                {
                    {"lockstep data list", "what is there"},
                    {"lockstep data fetch mnist", "into the cache folder"},
                    {"lockstep data check cifar10 --data-dir ~/data", "verify your copy"},
                    {"lockstep data info fake:3x32x32:10:500", "works for every spec"},
                    {"lockstep data info folder:photos -o samples.png --resized-crop 0.2 --flip", "look at the data"},
                },
        },
    [LS_CMD_INSPECT] =
        {
            .name = "inspect",
            .args = "RUN|CHECKPOINT",
            .min_args = 1,
            .max_args = 1,
            .summary = "show and verify a run directory or a checkpoint",
            .text = "For a run: what was trained, how, the result, and every checkpoint, verified. For a checkpoint: "
                    "its metadata and tensors. A file that does not verify ends it with exit code 4.",
            .examples =
                {
                    {"lockstep inspect runs/a", "the run in short"},
                    {"lockstep inspect runs/a/checkpoints/latest.safetensors", "all tensors"},
                },
        },
    [LS_CMD_REPORT] =
        {
            .name = "report",
            .args = "RUN...",
            .min_args = 1,
            .max_args = LS_MAX_ARGS,
            .summary = "one page about a run, or a comparison of several",
            .text =
                "Writes a page for people. Of one run: its result in a few words, curves over steps, epochs and time, "
                "CPU "
                "and memory, where the time went, ranks, environment, and the command that repeats it. Of several: "
                "what "
                "differs between them, what follows from the numbers (speed-up, accuracy, noise, identical weights) "
                "and "
                "the pictures that show it. A folder stands for the runs in it; RUN=LABEL gives a run another name.\n"
                "The ending of -o says what it becomes: .html (one file, no scripts, no network; the default, "
                "report.html), .md with pictures beside it, or .pdf.",
            .examples =
                {
                    {"lockstep report runs/a -o a.html", "one run"},
                    {"lockstep report runs/one=\"1 worker\" runs/two=\"2 workers\" -o speed.pdf", "a comparison"},
                    {"lockstep report runs", "all runs of a folder"},
                },
        },
    [LS_CMD_SHOW] =
        {
            .name = "show",
            .args = "RUN...",
            .min_args = 1,
            .max_args = LS_MAX_ARGS,
            .summary = "a run in a dozen lines, with small curves",
            .text = "Prints result, speed, memory and curves of runs that are done, under way or dead; `inspect` "
                    "prints and "
                    "verifies all that is there, `report` writes a page.",
            .examples = {{"lockstep show runs/a", "one run"}, {"lockstep show runs", "all runs of a folder"}},
        },
    [LS_CMD_WATCH] =
        {
            .name = "watch",
            .args = "[DIR]",
            .min_args = 0,
            .max_args = 1,
            .summary = "follow a run, or a folder of runs, while it trains",
            .text = "Shows state, loss and accuracy of a run or of every run in a folder (runs) until nothing runs any "
                    "more. "
                    "On a terminal a table, elsewhere a line for every epoch and evaluation. It only reads files.",
            .examples = {{"lockstep watch runs/a", "one run"}, {"lockstep watch", "the runs in runs"}},
        },
    [LS_CMD_DIFF] =
        {
            .name = "diff",
            .args = "RUN RUN",
            .min_args = 2,
            .max_args = 2,
            .summary = "what differs between two runs",
            .text = "Compares options, environment, result and curves of two runs, prints what differs, and says "
                    "whether the "
                    "weights are identical.",
            .examples = {{"lockstep diff runs/a runs/b", "two runs"}},
        },
    [LS_CMD_SERVE] =
        {
            .name = "serve",
            .args = "[DIR]",
            .min_args = 0,
            .max_args = 1,
            .summary = "a live page about runs, for a browser",
            .text =
                "Shows the runs in DIR (runs), up to three folders deep, on http://127.0.0.1:8420/ : a list, a page "
                "of each run whose curves move while it trains, and comparisons. It only reads files, so it may be "
                "started before, during and after a training, and ended at any time (Ctrl-C). Runs that come later "
                "appear by themselves. The address is printed; no browser is opened.\n"
                "From another machine: an ssh tunnel (ssh -L 8420:localhost:8420 HOST), or --listen 0.0.0.0, which "
                "prints an address with a token; whoever has it can read the runs, nobody can change anything. What "
                "goes over the network is not encrypted: use the tunnel where others listen.",
            .examples =
                {
                    {"lockstep serve", "the runs in runs/"},
                    {"lockstep serve sweep --port 0", "on any port that is free"},
                    {"lockstep serve runs --listen 0.0.0.0", "for other machines, with a token"},
                },
        },
    [LS_CMD_SERVER] =
        {
            .name = "server",
            .args = "MODEL DATA | --resume RUN | --keygen DIR",
            .min_args = 0,
            .max_args = 2,
            .summary = "train by workers that come and go; make keys for them",
            .text =
                "Trains as `train` does, but computes nothing itself: workers started anywhere with `lockstep train "
                "--server ADDRESS` take shards of every step, and this process adds their sums, updates, "
                "evaluates and has the run directory. Workers learn from it what is trained and compare their data "
                "with its own. They may join and leave at any time; work of one that dies or is silent for --lease "
                "goes to others, and the weights are those of one process. Killed, it goes on with --resume RUN, "
                "and workers that waited join again.\n"
                "With --servers K it waits for K-1 more, started anywhere with `lockstep server --chief ADDRESS` and "
                "the "
                "same key file, which have a part of the parameters each: workers send every part to its server. The "
                "training ends when one of them does, and goes on from the newest checkpoint.\n"
                "--keygen writes three key files into DIR, readable by you alone: server.key for the server, "
                "worker.key for every worker, and node.key for every node of a job that is started by --nodes. "
                "Copy them over ssh. Who has no key gets nothing; without keys only this machine's loopback is used.",
            .examples =
                {
                    {"lockstep server --keygen keys", "keys/server.key, keys/worker.key, keys/node.key"},
                    {"lockstep server lenet5 mnist --listen 0.0.0.0:4711 --key keys/server.key", "waits for workers"},
                    {"lockstep server lenet5 mnist --sync ssp:4", "bounded staleness, workers of this machine only"},
                    {"lockstep server --chief 10.0.0.1:4711 --key keys/server.key", "the second of --servers 2"},
                },
        },
    [LS_CMD_PLOT] =
        {
            .name = "plot",
            .args = "FILE|RUN...",
            .min_args = 1,
            .max_args = LS_MAX_ARGS,
            .summary = "draw runs, or numbers from a JSON or CSV file",
            .text =
                "Of runs: loss and accuracy over the steps in one picture, which also says whether values and weights "
                "are "
                "equal; RUN=LABEL gives a run another name. FILE.json describes any picture (docs/formats/plot.md); of "
                "FILE.csv the first column is x and every other one a curve. The ending of -o says what is drawn: "
                ".svg, "
                ".png or .pdf; without -o a file's picture goes to stdout as SVG.",
            .examples =
                {
                    {"lockstep plot runs/a runs/b -o both.svg --title \"Two seeds\"", "curves of two runs"},
                    {"lockstep plot table.csv -o table.svg", "curves over the first column"},
                    {"lockstep plot picture.json -o picture.pdf", "as the JSON describes it"},
                },
        },
    [LS_CMD_RECORD] =
        {
            .name = "record",
            .args = "PID | -- COMMAND...",
            .min_args = 0,
            .max_args = 1,
            .takes_rest = true,
            .summary = "record what any program uses over time: CPU, memory",
            .text = "Watches a process that runs already (PID), or starts COMMAND and watches it: CPU per cent (of one "
                    "core; "
                    "several threads add up), real and virtual memory, twice a second. The options and the files are "
                    "psrecord's. A training of ours records itself, see --record of train.\n"
                    "Ends when the process ends, after --duration, or by Ctrl-C. The exit code is COMMAND's.",
            .examples =
                {
                    {"lockstep record --log usage.txt -- python3 train.py --epochs 3", "start and watch"},
                    {"lockstep record 4711 --log usage.csv --log-format csv --include-children", "one that runs"},
                    {"lockstep record 4711 --duration 60", "a minute of it, printed"},
                },
        },
    [LS_CMD_LAB] =
        {
            .name = "lab",
            .args = "list | show LAB | run LAB | report DIR",
            .min_args = 1,
            .max_args = 2,
            .summary = "run a whole experiment and write its report",
            .text = "A lab is a text file: questions, the runs that answer them, what to show "
                    "(docs/guide/labs.md tells how to write one). LAB is the name of one that is part of the program, "
                    "or "
                    "a file. list: those of the program. show: the plan: every run, predicted time and disk; nothing "
                    "is "
                    "trained. run: trains all runs, each several times, round by round, and writes the report into the "
                    "lab's folder (--run DIR). report: writes the report of a folder anew.\n"
                    "Ctrl-C stops after a checkpoint; `lockstep lab run DIR` goes on. A run that fails is told in the "
                    "report and does not stop the others; the exit code is then 1.",
            .examples =
                {
                    {"lockstep lab list", "what is there"},
                    {"lockstep lab show svhn", "what it would do, and how long that takes"},
                    {"lockstep lab run mnist --run labs/mnist --scale 1/16", "a sixteenth of it"},
                    {"lockstep lab run labs/mnist", "go on with it"},
                    {"lockstep lab run my.lab --only Q1,Q3", "two questions of your own"},
                    {"lockstep lab report labs/mnist -o mnist.md --public", "to be read by others"},
                },
        },
    [LS_CMD_SWEEP] =
        {
            .name = "sweep",
            .args = "train MODEL DATA --vary KEY=A,B ...",
            .min_args = 3,
            .max_args = 3,
            .summary = "train with every combination of some options, and compare",
            .text = "Takes the options of `lockstep train`, and --vary for those that get several values. Every "
                    "combination is trained --repeat times, round by round, with the same seed; the folder (--run DIR) "
                    "is a lab's, with a report in it, and lab.txt in it is a lab file to go on from. `lockstep lab run "
                    "DIR` goes on with one that was stopped.",
            .examples =
                {
                    {"lockstep sweep train lenet5 mnist --vary batch-size=128,256,512 --vary workers=1,2 --repeat 3",
                     "six configurations, eighteen trainings"},
                    {"lockstep sweep train softmax digits --vary lr=0.01,0.1 --epochs 2 --run runs/rates", "two rates"},
                },
        },
    [LS_CMD_DOCTOR] =
        {
            .name = "doctor",
            .args = "",
            .min_args = 0,
            .max_args = 0,
            .summary = "check this machine and this build",
            .text = "Looks at the CPU, its limits, memory, libraries, data sets and folders, and says for each what is "
                    "fine and what to do about what is not.",
            .examples = {{"lockstep doctor", "before the first run"}},
        },
    [LS_CMD_HELP] =
        {
            .name = "help",
            .args = "[COMMAND]",
            .min_args = 0,
            .max_args = 1,
            .summary = "explain the program or a command",
            .text = "Prints the help of the program or of COMMAND to stdout; the same as COMMAND --help. Also the "
                    "source of the man page and of the shell completion.",
            .examples =
                {
                    {"lockstep help train", "all options of train"},
                    {"lockstep help --man | man -l -", "the man page"},
                    {"source <(lockstep help --completion bash)", "completion in this shell"},
                },
        },
};
